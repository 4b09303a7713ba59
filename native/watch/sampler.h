// Samples the allocators that are counted that way from a thread of its own: their statistics are
// read under their locks, residency under the kernel's, and nobody should wait for either; nor
// should the samples wait behind somebody's load, as the rescanning thread does.
#pragma once

#include "allocators/registry.h"

namespace oom_guard {

// Starts the thread, once, as soon as there is something to sample. Called again and again: where
// the OS refuses the thread it is asked for again.
void start_sampler_when_needed(Registry* registry);

// False while there is something to sample and the OS refuses the thread.
bool samples_are_taken();

}  // namespace oom_guard
