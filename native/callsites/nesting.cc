#include "callsites/nesting.h"

namespace oom_guard {

bool is_booked_inside(Fn fn, const AnyFn (&original)[kFnCount]) {
  auto address = [&](Fn which) { return reinterpret_cast<uintptr_t>(original[index_of(which)]); };
  auto* allocate = reinterpret_cast<void* (*)(size_t)>(address(Fn::malloc));
  auto* release = reinterpret_cast<void (*)(void*)>(address(Fn::free));
  const uintptr_t function = address(fn);
  void* block = nullptr;
  unsigned calls = 0;
  switch (fn) {
    case Fn::malloc:
    case Fn::valloc:
      begin_probe();
      block = reinterpret_cast<void* (*)(size_t)>(function)(64);
      calls = end_probe();
      break;
    case Fn::calloc:
    case Fn::aligned_alloc:
    case Fn::memalign:
      begin_probe();
      block = reinterpret_cast<void* (*)(size_t, size_t)>(function)(64, 64);
      calls = end_probe();
      break;
    case Fn::realloc:
      begin_probe();
      block = reinterpret_cast<void* (*)(void*, size_t)>(function)(nullptr, 64);
      calls = end_probe();
      break;
    case Fn::reallocarray:
      begin_probe();
      block = reinterpret_cast<void* (*)(void*, size_t, size_t)>(function)(nullptr, 1, 64);
      calls = end_probe();
      break;
    case Fn::posix_memalign:
      begin_probe();
      if (reinterpret_cast<int (*)(void**, size_t, size_t)>(function)(&block, 64, 64) != 0) {
        block = nullptr;
      }
      calls = end_probe();
      break;
    case Fn::free:
    case Fn::cfree:
      block = allocate(64);
      begin_probe();
      reinterpret_cast<void (*)(void*)>(function)(block);
      calls = end_probe();
      return calls != 0;
    case Fn::free_sized:
      block = allocate(64);
      begin_probe();
      reinterpret_cast<void (*)(void*, size_t)>(function)(block, 64);
      calls = end_probe();
      return calls != 0;
    case Fn::pvalloc:
      // Not called: valgrind ends a process that does. It is made like valloc.
      return is_booked_inside(Fn::valloc, original);
    default:
      // free_aligned_sized of glibc goes the way of free_sized; libc has no operator new.
      return false;
  }
  release(block);
  return calls != 0;
}

}  // namespace oom_guard
