#include "watch/watchdog.h"

#include <cstdio>

#include "callsites/large_allocations.h"
#include "os/os.h"

namespace oom_guard {
namespace {

constexpr uint64_t kSecond = 1000000000;
// From here on the container's anonymous memory is read at every tick.
constexpr double kNearContainerLimit = 0.8;

class Locked {
 public:
  explicit Locked(pthread_mutex_t* lock) : lock_(lock) { pthread_mutex_lock(lock_); }
  ~Locked() { pthread_mutex_unlock(lock_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t* lock_;
};

}  // namespace

bool Watchdog::acquire(unsigned tick_ms) {
  Locked locked(&lock_);
  if (users_.load(std::memory_order_relaxed) == 0) {
    tick_ms_.store(tick_ms, std::memory_order_relaxed);
    readings_ = {};
    last_sample_ns_ = 0;
    for (Threshold& threshold : thresholds_) threshold.over = false;
  } else if (tick_ms < tick_ms_.load(std::memory_order_relaxed)) {
    tick_ms_.store(tick_ms, std::memory_order_relaxed);
  }
  // A thread that is on its way out sees the new user and stays.
  if (!thread_alive_) {
    if (!os::start_thread(&Watchdog::run, this)) return false;
    thread_alive_ = true;
  }
  users_.fetch_add(1, std::memory_order_release);
  return true;
}

void Watchdog::release() {
  Locked locked(&lock_);
  if (users_.load(std::memory_order_relaxed) != 0) users_.fetch_sub(1, std::memory_order_release);
}

int32_t Watchdog::watch(uint64_t bytes, CrossingCallback callback, void* context) {
  Locked locked(&lock_);
  for (unsigned i = 0; i < kMaxThresholds; ++i) {
    if (thresholds_[i].callback != nullptr) continue;
    thresholds_[i] = {bytes, callback, context, false};
    return static_cast<int32_t>(i);
  }
  return -1;
}

void Watchdog::unwatch(int32_t id) {
  Locked locked(&lock_);
  if (id >= 0 && id < static_cast<int32_t>(kMaxThresholds)) thresholds_[id] = Threshold();
}

void Watchdog::watch_container(const char* file, const char* name, uint64_t limit) {
  Locked locked(&lock_);
  snprintf(container_file_, sizeof(container_file_), "%s", file);
  snprintf(container_name_, sizeof(container_name_), "%s", name);
  container_limit_ = limit;
}

void Watchdog::read(WatchdogReadings* out) const {
  Locked locked(&lock_);
  *out = readings_;
}

void Watchdog::run(void* self) { static_cast<Watchdog*>(self)->loop(); }

void Watchdog::loop() {
  for (;;) {
    {
      Locked locked(&lock_);
      if (users_.load(std::memory_order_relaxed) == 0) {
        thread_alive_ = false;
        g_watchdog_call.store(0, std::memory_order_release);
        return;
      }
      tick(os::monotonic_ns());
    }
    // Armed before it sleeps: a call that comes in between keeps it from sleeping.
    g_watchdog_call.store(1, std::memory_order_release);
    os::wait(&g_watchdog_call, 1, tick_ms_.load(std::memory_order_relaxed));
  }
}

void Watchdog::tick(uint64_t now_ns) {
  const int64_t live = registry_->live();
  const uint64_t usage = (live > 0 ? static_cast<uint64_t>(live) : 0) + heaps_->sum();
  ++readings_.ticks;
  readings_.live = live;
  readings_.usage = usage;
  if (live > readings_.peak_live) readings_.peak_live = live;
  if (usage > readings_.peak_usage) readings_.peak_usage = usage;
  compare(usage, now_ns);
  sample(now_ns);
}

void Watchdog::compare(uint64_t usage, uint64_t now_ns) {
  for (Threshold& threshold : thresholds_) {
    if (threshold.callback == nullptr) continue;
    const bool over = usage > threshold.bytes;
    if (over && !threshold.over) {
      ++readings_.crossings;
      readings_.last_crossing_ns = now_ns;
      threshold.callback(threshold.context, usage);
    }
    threshold.over = over;
  }
}

void Watchdog::sample(uint64_t now_ns) {
  const bool second = last_sample_ns_ == 0 || now_ns - last_sample_ns_ >= kSecond;
  const bool near = container_limit_ != 0 &&
                    static_cast<double>(readings_.container_anon) >
                        kNearContainerLimit * static_cast<double>(container_limit_);
  if (second) {
    last_sample_ns_ = now_ns;
    os::Rss rss;
    if (os::read_rss(&rss)) {
      readings_.rss = rss.total;
      readings_.rss_anon = rss.anon;
    }
  }
  uint64_t anon = 0;
  if ((second || near) && container_file_[0] != '\0' &&
      os::read_stat(container_file_, container_name_, &anon)) {
    readings_.container_anon = anon;
  }
}

}  // namespace oom_guard
