// Finds images that were loaded without anyone telling us, from a thread of its own: patching waits
// for loads that are going on, and nobody else should.
#pragma once

#include "allocators/registry.h"

namespace oom_guard {

// Starts the thread, once. False when the OS refuses; images are then found when JavaScript loads
// them or asks for a snapshot.
bool start_rescanner(Registry* registry);

}  // namespace oom_guard
