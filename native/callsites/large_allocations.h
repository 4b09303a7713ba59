// Large allocations do not wait for the watchdog's next tick: they wake it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace oom_guard {

constexpr size_t kLargeAllocation = 1u << 20;  // bytes

// 0: nobody listens; 1: the watchdog sleeps on it; 2: it is to wake up. Also a futex.
extern std::atomic<uint32_t> g_watchdog_call __attribute__((visibility("hidden")));

// One load while nobody listens. Wakes the watchdog with one system call, at most once per tick;
// allocates nothing, takes no lock, keeps errno.
void call_watchdog() noexcept;

inline void note_allocation(size_t bytes) noexcept {
  if (__builtin_expect(bytes >= kLargeAllocation, 0)) call_watchdog();
}

}  // namespace oom_guard
