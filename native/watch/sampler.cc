#include "watch/sampler.h"

#include "os/os.h"

namespace oom_guard {
namespace {

constexpr unsigned kSampleMs = 100;

enum State : int { kNotNeeded, kStarting, kRuns, kRefused };
std::atomic<int> g_state{kNotNeeded};

void* run(void* registry) {
  for (;;) {
    static_cast<Registry*>(registry)->sample();
    os::sleep_ms(kSampleMs);
  }
}

}  // namespace

void start_sampler_when_needed(Registry* registry) {
  int state = g_state.load(std::memory_order_acquire);
  if (state == kStarting || state == kRuns || registry->is_forked() || !registry->samples()) return;
  if (!g_state.compare_exchange_strong(state, kStarting, std::memory_order_acq_rel)) return;
  g_state.store(os::start_thread(&run, registry) ? kRuns : kRefused, std::memory_order_release);
}

bool samples_are_taken() {
  return g_state.load(std::memory_order_acquire) != kRefused;
}

}  // namespace oom_guard
