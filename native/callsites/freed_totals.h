// What jemalloc itself adds up for each thread: the bytes that the thread has given back, by the
// size of the block (the mallctl name `thread.deallocatedp`). How much it grows during a free is
// the size of the block, which need not be looked up for that.
#pragma once

#include <cstddef>
#include <cstdint>

#include "counter/thread_number.h"

namespace oom_guard {

// Read where the thread pointer says, not as a thread-local variable: it is jemalloc's, and lies in
// the static part that every thread has from its start on.
inline uint64_t freed_total_at(intptr_t distance) noexcept {
  uint64_t total;
#if defined(__x86_64__)
  __asm__ volatile("movq %%fs:(%1), %0" : "=r"(total) : "r"(distance) : "memory");
#else
  __asm__ volatile("ldr %0, [%1]" : "=r"(total) : "r"(thread_pointer() + distance) : "memory");
#endif
  return total;
}

using MallctlFn = int (*)(const char* name, void* old, size_t* old_size, void* value,
                          size_t value_size);

// What of a provider is needed to find out whether it keeps such totals.
struct FreedTotalsOf {
  MallctlFn mallctl;
  void* (*malloc)(size_t);
  void (*free)(void*);
  size_t (*usable_size)(void*);
};

// How far from the thread pointer a thread's total lies, looked at in this thread and in another
// one; 0 where there is none, where it lies differently in each, or where it grows by anything but
// the usable size of the block that is freed.
intptr_t find_freed_totals(const FreedTotalsOf& provider);

}  // namespace oom_guard
