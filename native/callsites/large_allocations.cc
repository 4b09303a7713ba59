#include "callsites/large_allocations.h"

namespace oom_guard {

std::atomic<LargeAllocationListener> g_large_allocation_listener{nullptr};

}  // namespace oom_guard
