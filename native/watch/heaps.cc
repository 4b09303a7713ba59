#include "watch/heaps.h"

#include "os/lock.h"
#include "os/os.h"

namespace oom_guard {

int32_t HeapSlots::acquire() {
  const uint32_t thread = os::thread_id();
  os::Lock lock(&lock_);
  int32_t free_slot = -1;
  for (int32_t slot = 0; slot < kSlots; ++slot) {
    Holder& holder = holders_[slot];
    if (holder.users != 0 && holder.thread == thread) {
      ++holder.users;
      return slot;
    }
    if (holder.users == 0 && free_slot < 0) free_slot = slot;
  }
  if (free_slot < 0) return -1;
  holders_[free_slot].thread = thread;
  holders_[free_slot].users = 1;
  if (free_slot >= highest_.load(std::memory_order_relaxed)) {
    highest_.store(free_slot + 1, std::memory_order_release);
  }
  return free_slot;
}

void HeapSlots::release(int32_t slot) {
  if (slot < 0 || slot >= kSlots) return;
  os::Lock lock(&lock_);
  Holder& holder = holders_[slot];
  if (holder.users == 0 || --holder.users != 0) return;
  used_[slot].store(0, std::memory_order_relaxed);
}

uint64_t HeapSlots::sum() const {
  uint64_t sum = 0;
  const int32_t end = highest_.load(std::memory_order_acquire);
  for (int32_t slot = 0; slot < end; ++slot) sum += used_[slot].load(std::memory_order_relaxed);
  return sum;
}

uint32_t HeapSlots::count() const {
  os::Lock lock(&lock_);
  uint32_t count = 0;
  for (const Holder& holder : holders_) count += holder.users != 0;
  return count;
}

}  // namespace oom_guard
