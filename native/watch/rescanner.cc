#include "watch/rescanner.h"

#include "os/os.h"
#include "watch/sampler.h"

namespace oom_guard {
namespace {

// While bytes move, an image may be loaded at any moment; a process where nothing is allocated
// cannot load one, so there is no need to wake as often.
constexpr unsigned kBusyMs = 10;
constexpr unsigned kIdleMs = 100;
constexpr unsigned kTicksUntilIdle = 10;
// What was written over is seen within this time.
constexpr unsigned kRecheckMs = 1000;
// A scan takes some milliseconds, unless it waits for somebody's load.
constexpr uint64_t kPatienceNs = 20000000;

Registry* g_registry;
std::atomic<bool> g_running{false};
std::atomic<uint32_t> g_asked{0};          // how often somebody asked for a look
std::atomic<uint32_t> g_served{0};         // up to which of them a look has been finished
std::atomic<uint64_t> g_looking_since{0};  // ns; 0 while it is not looking

uint64_t bytes_ever_allocated() {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < g_registry->allocator_count(); ++i) {
    bytes += g_registry->allocator(i).shards->sum().allocated;
  }
  return bytes;
}

void look(bool at_slots_too) {
  const uint32_t asked = g_asked.load(std::memory_order_acquire);
  g_looking_since.store(os::monotonic_ns(), std::memory_order_release);
  if (at_slots_too) {
    g_registry->recheck();
  } else {
    g_registry->rescan();
  }
  g_looking_since.store(0, std::memory_order_release);
  if (asked != g_served.exchange(asked, std::memory_order_acq_rel)) os::wake_all(&g_served);
  start_sampler_when_needed(g_registry);
}

void* run(void*) {
  uint64_t last = 0;
  unsigned still = 0, since_recheck = 0;
  for (;;) {
    uint64_t now = bytes_ever_allocated();
    still = now == last ? still + 1 : 0;
    last = now;
    const unsigned tick = still < kTicksUntilIdle ? kBusyMs : kIdleMs;
    os::wait(&g_asked, g_served.load(std::memory_order_relaxed), tick);
    since_recheck += tick;
    const bool recheck = since_recheck >= kRecheckMs;
    if (recheck) since_recheck = 0;
    look(recheck);
  }
}

}  // namespace

bool start_rescanner(Registry* registry) {
  g_registry = registry;
  const bool running = os::start_thread(&run, nullptr);
  g_running.store(running, std::memory_order_release);
  return running;
}

void catch_up_with_loads(Registry* registry) {
  // In this order: a child's loader may be locked for ever.
  if (registry->is_forked() || !registry->is_behind()) return;
  if (!g_running.load(std::memory_order_acquire)) {
    registry->rescan();
    return;
  }
  const uint32_t mine = g_asked.fetch_add(1, std::memory_order_acq_rel) + 1;
  os::wake_all(&g_asked);
  const uint64_t came = os::monotonic_ns();
  for (;;) {
    const uint32_t served = g_served.load(std::memory_order_acquire);
    if (static_cast<int32_t>(served - mine) >= 0) return;
    const uint64_t now = os::monotonic_ns();
    const uint64_t looking_since = g_looking_since.load(std::memory_order_acquire);
    const uint64_t begin = looking_since != 0 && looking_since < came ? looking_since : came;
    if (now - begin >= kPatienceNs) return;
    // A millisecond more than is left does not matter, and a wait of none would spin.
    os::wait(&g_served, served, static_cast<unsigned>((begin + kPatienceNs - now) / 1000000) + 1);
  }
}

}  // namespace oom_guard
