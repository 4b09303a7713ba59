// Large allocations do not wait for the watchdog's next tick.
#pragma once

#include <atomic>
#include <cstddef>

namespace oom_guard {

constexpr size_t kLargeAllocation = 1u << 20;  // bytes

// What a thread that has just allocated so much calls; null while nobody listens. It runs inside
// malloc: no lock, no allocation, errno kept.
using LargeAllocationListener = void (*)();
extern std::atomic<LargeAllocationListener> g_large_allocation_listener
    __attribute__((visibility("hidden")));

inline void note_allocation(size_t bytes) noexcept {
  if (__builtin_expect(bytes < kLargeAllocation, 1)) return;
  auto* listener = g_large_allocation_listener.load(std::memory_order_acquire);
  if (listener != nullptr) listener();
}

}  // namespace oom_guard
