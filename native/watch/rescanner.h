// Finds images that were loaded without anyone telling us, and slots that somebody wrote over, from
// a thread of its own: patching waits for loads that are going on, and nobody else should.
#pragma once

#include "allocators/registry.h"

namespace oom_guard {

// Starts the thread, once. False when the OS refuses; images are then found when JavaScript loads
// them or asks for a snapshot.
bool start_rescanner(Registry* registry);

// For who is about to read: waits until the thread has looked at what is loaded by now, but not for
// long, and not at all behind a load that has kept it waiting for long already. Nearly free when
// nothing was loaded.
void catch_up_with_loads(Registry* registry);

}  // namespace oom_guard
