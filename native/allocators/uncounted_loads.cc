#include "allocators/uncounted_loads.h"

#include <cstdio>

#include "os/lock.h"

namespace oom_guard {

void UncountedLoads::add(const char* path, int64_t bytes) {
  os::Lock lock(&lock_);
  total_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= kListed || count_ == kMaxListed) return;
  snprintf(loads_[count_].path, sizeof(loads_[count_].path), "%s", path);
  loads_[count_++].bytes = bytes;
}

void UncountedLoads::each(void (*visit)(void* context, const char* path, int64_t bytes),
                          void* context) {
  os::Lock lock(&lock_);
  for (unsigned i = 0; i < count_; ++i) visit(context, loads_[i].path, loads_[i].bytes);
}

}  // namespace oom_guard
