// What modules allocated while they were loaded, before their slots could be written: measured by
// whoever loads them, and told here, so that all isolates know.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace oom_guard {

class UncountedLoads {
 public:
  static constexpr unsigned kMaxListed = 128;

  // `bytes` may be below zero: other threads blur the measurement in either direction, and what
  // they add to one load they take from another.
  void add(const char* path, int64_t bytes);
  // Over all loads, listed or not.
  int64_t total() const { return total_.load(std::memory_order_relaxed); }
  void each(void (*visit)(void* context, const char* path, int64_t bytes), void* context);

  // In a forked child.
  void forked() { lock_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  // Less than this is noise: thread caches, a new arena's header.
  static constexpr int64_t kListed = 8192;

  struct Load {
    char path[1024];
    int64_t bytes;
  };

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<int64_t> total_{0};
  unsigned count_ = 0;
  Load loads_[kMaxListed] = {};
};

}  // namespace oom_guard
