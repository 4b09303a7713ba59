// A thread that sums what is in use at every tick: keeps the peak, compares with thresholds,
// samples resident memory. It runs only while somebody wants it, and notices while JavaScript is
// blocked.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "allocators/registry.h"
#include "watch/heaps.h"

namespace oom_guard {

// Called from the watchdog's thread, under its lock: must be quick and must not call back.
using CrossingCallback = void (*)(void* context, uint64_t usage);

struct WatchdogReadings {
  uint64_t ticks;
  int64_t live, peak_live;     // bytes at the last tick, and the highest tick since the start
  uint64_t usage, peak_usage;  // live plus the published heaps
  uint64_t rss, rss_anon;      // sampled every second
  uint64_t container_anon;     // 0 where no container was named
  uint64_t crossings;          // thresholds crossed upwards so far
  uint64_t busy_ns;            // spent in all ticks together
  uint64_t last_crossing_ns;   // CLOCK_MONOTONIC, when the last one was noticed
};

class Watchdog {
 public:
  static constexpr unsigned kMaxThresholds = 32;
  static constexpr unsigned kMaxHolds = 256;

  Watchdog(Registry* registry, const HeapSlots* heaps) : registry_(registry), heaps_(heaps) {}

  // Runs while somebody holds it, at the shortest of the holders' ticks. Returns a hold for
  // release(); -1 when the OS gives no thread, or too many hold it.
  int32_t acquire(unsigned tick_ms);
  void release(int32_t hold);

  // Calls back once when usage passes `bytes`, again after it was at or under it. -1 when all
  // places are taken. Works while the watchdog runs.
  int32_t watch(uint64_t bytes, CrossingCallback callback, void* context);
  // After it returns the callback is not running and will not run.
  void unwatch(int32_t id);

  // Where to read the container's anonymous bytes: a file of "name number" lines. Near the limit it
  // is read at every tick, otherwise every second.
  void watch_container(const char* file, const char* name, uint64_t limit);

  // In a forked child, which has none of its parent's threads: nobody holds it there.
  void forked();

  // A snapshot of the last tick.
  void read(WatchdogReadings* out) const;

 private:
  struct Threshold {
    uint64_t bytes = 0;
    CrossingCallback callback = nullptr;  // null: free
    void* context = nullptr;
    bool over = false;
  };

  // Called by threads that have made a large allocation: looks at once whether it passed the lowest
  // threshold and, if so, notes the time and wakes the watchdog's thread, which may have to wait
  // for a core.
  static void on_large_allocation();
  uint64_t usage_now() const;
  void arm();
  void choose_tick();

  static void* run(void* self);
  void loop();
  void tick(uint64_t now_ns);
  void compare(uint64_t usage, uint64_t now_ns);
  void sample(uint64_t now_ns);

  Registry* registry_;
  const HeapSlots* heaps_;
  mutable pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  unsigned holds_[kMaxHolds] = {};    // their ticks; 0: free
  std::atomic<unsigned> tick_ms_{0};  // the shortest of them; 0: nobody holds it
  bool thread_alive_ = false;         // under the lock
  Threshold thresholds_[kMaxThresholds];
  char container_file_[1024] = "";
  char container_name_[32] = "";
  uint64_t container_limit_ = 0;
  uint64_t last_sample_ns_ = 0;
  // The lowest threshold that usage is not over; all ones when there is none.
  std::atomic<uint64_t> next_threshold_{UINT64_MAX};
  std::atomic<uint64_t> crossed_ns_{0};  // noticed by an allocating thread; 0: not
  std::atomic<uint32_t> call_{0};        // 1: the thread sleeps on it; 2: it is to wake up
  WatchdogReadings readings_ = {};
};

}  // namespace oom_guard
