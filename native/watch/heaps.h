// Where isolates publish the used size of their V8 heap.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace oom_guard {

class HeapSlots {
 public:
  static constexpr int32_t kSlots = 512;

  // The slot of the isolate that runs on the calling thread: one, however many copies of the
  // package it has loaded. -1 when all are taken. Each acquire() needs a release().
  int32_t acquire();
  void release(int32_t slot);
  void publish(int32_t slot, uint64_t used_bytes) {
    if (slot >= 0 && slot < kSlots) used_[slot].store(used_bytes, std::memory_order_relaxed);
  }

  uint64_t sum() const;
  uint32_t count() const;

  // In a forked child.
  void forked() { lock_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  struct Holder {
    uint32_t thread = 0;
    uint32_t users = 0;  // 0: the slot is free, and its size is 0
  };

  mutable pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  Holder holders_[kSlots];           // under the lock
  std::atomic<int32_t> highest_{0};  // slots at and above were never used
  std::atomic<uint64_t> used_[kSlots] = {};
};

}  // namespace oom_guard
