#include "callsites/large_allocations.h"

#include "os/os.h"

namespace oom_guard {

std::atomic<uint32_t> g_watchdog_call{0};

__attribute__((cold)) void call_watchdog() noexcept {
  uint32_t sleeping = 1;
  if (g_watchdog_call.compare_exchange_strong(sleeping, 2, std::memory_order_acq_rel)) {
    os::wake(&g_watchdog_call);
  }
}

}  // namespace oom_guard
