#include "callsites/freed_totals.h"

#include <pthread.h>

namespace oom_guard {
namespace {

struct Check {
  const FreedTotalsOf& provider;
  intptr_t distance = 0;  // of the thread that looked last
};

bool grows_by_usable_size(const FreedTotalsOf& provider, intptr_t distance) {
  // Small, large, and beyond what jemalloc serves from a thread's cache.
  constexpr size_t kSizes[] = {0, 1, 100, 4096, 20000, 100000, 5u << 20};
  for (size_t size : kSizes) {
    void* block = provider.malloc(size);
    if (block == nullptr) return false;
    const size_t usable = provider.usable_size(block);
    const uint64_t before = freed_total_at(distance);
    provider.free(block);
    if (freed_total_at(distance) - before != usable) return false;
  }
  return true;
}

void* look(void* argument) {
  auto* check = static_cast<Check*>(argument);
  check->distance = 0;
  uintptr_t total = 0;
  size_t size = sizeof(total);
  if (check->provider.mallctl("thread.deallocatedp", &total, &size, nullptr, 0) != 0) {
    return nullptr;
  }
  const auto distance = static_cast<intptr_t>(total - thread_pointer());
  if (grows_by_usable_size(check->provider, distance)) check->distance = distance;
  return nullptr;
}

}  // namespace

intptr_t find_freed_totals(const FreedTotalsOf& provider) {
  Check here{provider}, elsewhere{provider};
  look(&here);
  pthread_t thread;
  if (here.distance == 0 || pthread_create(&thread, nullptr, look, &elsewhere) != 0) return 0;
  pthread_join(thread, nullptr);
  return here.distance == elsewhere.distance ? here.distance : 0;
}

}  // namespace oom_guard
