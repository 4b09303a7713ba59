// Which functions of libc call another one of the family through libc's own slots.
#pragma once

#include "callsites/wrappers.h"

namespace oom_guard {

// Calls the original while libc's slots lead to the probing wrappers, and looks whether the call
// came through one of them: then it is booked there (reallocarray in realloc) and must not be
// wrapped.
bool is_booked_inside(Fn fn, const AnyFn (&original)[kFnCount]);

}  // namespace oom_guard
