#include "watch/heaps.h"

namespace oom_guard {

int32_t HeapSlots::acquire() {
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    uint64_t free_slot = 0;
    if (!used_[slot].compare_exchange_strong(free_slot, 1)) continue;
    int32_t highest = highest_.load();
    while (highest <= slot && !highest_.compare_exchange_weak(highest, slot + 1)) {
    }
    return slot;
  }
  return -1;
}

uint64_t HeapSlots::sum() const {
  uint64_t sum = 0;
  int32_t end = highest_.load(std::memory_order_acquire);
  for (int32_t slot = 0; slot < end; ++slot) {
    uint64_t used = used_[slot].load(std::memory_order_relaxed);
    if (used != 0) sum += used - 1;
  }
  return sum;
}

uint32_t HeapSlots::count() const {
  uint32_t count = 0;
  int32_t end = highest_.load(std::memory_order_acquire);
  for (int32_t slot = 0; slot < end; ++slot) {
    if (used_[slot].load(std::memory_order_relaxed) != 0) ++count;
  }
  return count;
}

}  // namespace oom_guard
