// Threads that allocate until they are told to stop.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

class Churning {
 public:
  static constexpr int kMaxThreads = 16;
  static constexpr int kHeld = 64;
  static constexpr size_t kMaxSize = 2000;

  explicit Churning(int threads) : count_(threads) {
    for (int i = 0; i < count_; ++i) pthread_create(&threads_[i], nullptr, run, this);
  }
  // All that was allocated has been freed then.
  void stop() {
    stop_.store(true);
    for (int i = 0; i < count_; ++i) pthread_join(threads_[i], nullptr);
    count_ = 0;
  }
  ~Churning() { stop(); }
  Churning(const Churning&) = delete;
  Churning& operator=(const Churning&) = delete;

 private:
  static void* run(void* self) {
    auto* owner = static_cast<Churning*>(self);
    void* held[kHeld] = {};
    auto seed = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&held) >> 8);
    while (!owner->stop_.load(std::memory_order_relaxed)) {
      seed = seed * 1664525 + 1013904223;
      void*& slot = held[seed >> 26];
      size_t size = 1 + (seed >> 8) % (kMaxSize - 1);
      switch ((seed >> 24) & 3) {
        case 0:
          slot = realloc(slot, size);
          break;
        case 1:
          free(slot);
          slot = calloc(1, size);
          break;
        default:
          free(slot);
          slot = malloc(size);
      }
    }
    for (void* block : held) free(block);
    return nullptr;
  }

  pthread_t threads_[kMaxThreads];
  int count_;
  std::atomic<bool> stop_{false};
};

// Runs `step` again and again for so many milliseconds.
template <class Step>
void repeat_for(unsigned milliseconds, Step step) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + milliseconds;
  do {
    step();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end);
}
