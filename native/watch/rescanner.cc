#include "watch/rescanner.h"

#include "os/os.h"

namespace oom_guard {
namespace {

// While bytes move, an image may be loaded at any moment; a process where nothing is allocated
// cannot load one, so there is no need to wake as often.
constexpr unsigned kBusyMs = 10;
constexpr unsigned kIdleMs = 100;
constexpr unsigned kTicksUntilIdle = 10;
// Statistics are read under the allocator's locks.
constexpr unsigned kSampleMs = 100;

Registry* g_registry;

uint64_t bytes_ever_allocated() {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < g_registry->allocator_count(); ++i) {
    bytes += g_registry->allocator(i).shards->sum().allocated;
  }
  return bytes;
}

void* run(void*) {
  uint64_t last = 0;
  unsigned still = 0, since_sample = 0;
  for (;;) {
    uint64_t now = bytes_ever_allocated();
    still = now == last ? still + 1 : 0;
    last = now;
    unsigned tick = still < kTicksUntilIdle ? kBusyMs : kIdleMs;
    os::sleep_ms(tick);
    g_registry->rescan();
    since_sample += tick;
    if (since_sample >= kSampleMs) {
      since_sample = 0;
      g_registry->sample();
    }
  }
}

}  // namespace

bool start_rescanner(Registry* registry) {
  g_registry = registry;
  return os::start_thread(&run, nullptr);
}

}  // namespace oom_guard
