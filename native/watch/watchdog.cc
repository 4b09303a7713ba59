#include "watch/watchdog.h"

#include <cstdio>

#include "callsites/large_allocations.h"
#include "os/lock.h"
#include "os/os.h"

namespace oom_guard {
namespace {

constexpr uint64_t kSecond = 1000000000;
// From here on the container's anonymous memory is read at every tick.
constexpr double kNearContainerLimit = 0.8;

// The one whose thread runs, for threads that allocate.
std::atomic<Watchdog*> g_running{nullptr};

}  // namespace

int32_t Watchdog::acquire(unsigned tick_ms) {
  os::Lock lock(&lock_);
  unsigned hold = 0;
  while (hold < kMaxHolds && holds_[hold] != 0) ++hold;
  if (hold == kMaxHolds || tick_ms == 0) return -1;
  // A thread that is on its way out sees the new hold and stays.
  if (!thread_alive_) {
    if (!os::start_thread(&Watchdog::run, this)) return -1;
    thread_alive_ = true;
  }
  holds_[hold] = tick_ms;
  choose_tick();
  return static_cast<int32_t>(hold);
}

void Watchdog::release(int32_t hold) {
  if (hold < 0 || hold >= static_cast<int32_t>(kMaxHolds)) return;
  os::Lock lock(&lock_);
  if (holds_[hold] == 0) return;
  holds_[hold] = 0;
  choose_tick();
  if (tick_ms_.load(std::memory_order_relaxed) != 0) return;
  readings_ = {};
  last_sample_ns_ = 0;
  for (Threshold& threshold : thresholds_) threshold.over = false;
}

// Wakes the thread: it may sleep for a longer tick than is wanted now, or nobody may want it.
void Watchdog::choose_tick() {
  unsigned shortest = 0;
  for (unsigned tick : holds_) {
    if (tick != 0 && (shortest == 0 || tick < shortest)) shortest = tick;
  }
  tick_ms_.store(shortest, std::memory_order_relaxed);
  call_.store(2, std::memory_order_release);
  os::wake(&call_);
}

int32_t Watchdog::watch(uint64_t bytes, CrossingCallback callback, void* context) {
  os::Lock lock(&lock_);
  for (unsigned i = 0; i < kMaxThresholds; ++i) {
    if (thresholds_[i].callback != nullptr) continue;
    thresholds_[i] = {bytes, callback, context, false};
    arm();
    return static_cast<int32_t>(i);
  }
  return -1;
}

void Watchdog::unwatch(int32_t id) {
  os::Lock lock(&lock_);
  if (id >= 0 && id < static_cast<int32_t>(kMaxThresholds)) thresholds_[id] = Threshold();
  arm();
}

void Watchdog::watch_container(const char* file, const char* name, uint64_t limit) {
  os::Lock lock(&lock_);
  snprintf(container_file_, sizeof(container_file_), "%s", file);
  snprintf(container_name_, sizeof(container_name_), "%s", name);
  container_limit_ = limit;
}

void Watchdog::read(WatchdogReadings* out) const {
  os::Lock lock(&lock_);
  *out = readings_;
}

void* Watchdog::run(void* self) {
  static_cast<Watchdog*>(self)->loop();
  return nullptr;
}

void Watchdog::forked() {
  lock_ = PTHREAD_MUTEX_INITIALIZER;
  tick_ms_.store(0, std::memory_order_relaxed);
  for (unsigned& hold : holds_) hold = 0;
  thread_alive_ = false;
  for (Threshold& threshold : thresholds_) threshold = Threshold();
  g_large_allocation_listener.store(nullptr, std::memory_order_relaxed);
}

void Watchdog::loop() {
  os::raise_thread_priority();
  g_running.store(this, std::memory_order_release);
  g_large_allocation_listener.store(&Watchdog::on_large_allocation, std::memory_order_release);
  for (;;) {
    {
      os::Lock lock(&lock_);
      if (tick_ms_.load(std::memory_order_relaxed) == 0) {
        // A thread that is past this point finds a watchdog whose thresholds are all free.
        g_large_allocation_listener.store(nullptr, std::memory_order_release);
        thread_alive_ = false;
        return;
      }
      // Armed before it looks: a call that comes in from here on keeps it from sleeping.
      call_.store(1, std::memory_order_release);
      tick(os::monotonic_ns());
    }
    os::wait(&call_, 1, tick_ms_.load(std::memory_order_relaxed));
  }
}

void Watchdog::on_large_allocation() {
  Watchdog* self = g_running.load(std::memory_order_acquire);
  const uint64_t threshold = self->next_threshold_.load(std::memory_order_relaxed);
  if (threshold == UINT64_MAX || self->usage_now() <= threshold) return;
  uint64_t unnoticed = 0;
  self->crossed_ns_.compare_exchange_strong(unnoticed, os::monotonic_ns(),
                                            std::memory_order_relaxed);
  uint32_t sleeping = 1;
  if (self->call_.compare_exchange_strong(sleeping, 2, std::memory_order_acq_rel)) {
    os::wake(&self->call_);
  }
}

uint64_t Watchdog::usage_now() const {
  const int64_t live = registry_->live();
  return (live > 0 ? static_cast<uint64_t>(live) : 0) + heaps_->sum();
}

void Watchdog::arm() {
  uint64_t lowest = UINT64_MAX;
  for (const Threshold& threshold : thresholds_) {
    if (threshold.callback != nullptr && !threshold.over && threshold.bytes < lowest) {
      lowest = threshold.bytes;
    }
  }
  next_threshold_.store(lowest, std::memory_order_relaxed);
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
  readings_.busy_ns += os::monotonic_ns() - now_ns;
}

void Watchdog::compare(uint64_t usage, uint64_t now_ns) {
  const uint64_t noticed_ns = crossed_ns_.exchange(0, std::memory_order_relaxed);
  for (Threshold& threshold : thresholds_) {
    if (threshold.callback == nullptr) continue;
    const bool over = usage > threshold.bytes;
    if (over && !threshold.over) {
      ++readings_.crossings;
      readings_.last_crossing_ns = noticed_ns != 0 ? noticed_ns : now_ns;
      threshold.callback(threshold.context, usage);
    }
    threshold.over = over;
  }
  arm();
}

void Watchdog::sample(uint64_t now_ns) {
  const bool second = last_sample_ns_ == 0 || now_ns - last_sample_ns_ >= kSecond;
  const bool near =
      container_limit_ != 0 && static_cast<double>(readings_.container_anon) >
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
