// Where isolates publish the used size of their V8 heap.
#pragma once

#include <atomic>
#include <cstdint>

namespace oom_guard {

class HeapSlots {
 public:
  static constexpr int32_t kSlots = 512;

  int32_t acquire();
  void publish(int32_t slot, uint64_t used_bytes) {
    if (slot >= 0 && slot < kSlots) used_[slot].store(used_bytes + 1, std::memory_order_relaxed);
  }
  void release(int32_t slot) {
    if (slot >= 0 && slot < kSlots) used_[slot].store(0, std::memory_order_release);
  }
  uint64_t sum() const;
  uint32_t count() const;

 private:
  // 0: free; otherwise bytes + 1.
  std::atomic<uint64_t> used_[kSlots] = {};
  std::atomic<int32_t> highest_{0};  // slots at and above were never used
};

}  // namespace oom_guard
