// Threads map and unmap, at the same addresses again and again, some of it past the table of
// ranges, while what is not mapped any more is taken out of that table: nothing that is mapped may
// go with it.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "allocators/residency.h"
#include "check.h"

namespace {

#ifndef __has_feature
#define __has_feature(name) 0
#endif
constexpr bool kUnderThreadSanitizer = __has_feature(thread_sanitizer);

using oom_guard::PageRanges;

constexpr unsigned kThreads = 4, kSlots = 16;
constexpr int kTurns = 50000;
constexpr size_t kSize = 64 << 10;

PageRanges g_ranges;
PageRanges::Range g_scratch[PageRanges::kCapacity];
void* g_mapped[kThreads][kSlots];
std::atomic<unsigned> g_busy{kThreads};
// Not before all stacks are mapped: what comes to stand where something was unmapped past the table
// is counted.
pthread_barrier_t g_begin;

void* churn(void* argument) {
  const auto self = static_cast<unsigned>(reinterpret_cast<uintptr_t>(argument));
  uint32_t state = self + 1;
  pthread_barrier_wait(&g_begin);
  for (int n = 0; n < kTurns; ++n) {
    state = state * 1664525 + 1013904223;
    void*& slot = g_mapped[self][state >> 28];
    const auto address = reinterpret_cast<uintptr_t>(slot);
    if (slot == nullptr) {
      slot = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK(slot != MAP_FAILED, "mmap");
      g_ranges.record(self, reinterpret_cast<uintptr_t>(slot), kSize);
      continue;
    }
    const bool secretly = (state >> 8) % 8 == 0;
    if (!secretly) g_ranges.forget(address, kSize);
    munmap(slot, kSize);
    slot = nullptr;
  }
  for (void*& slot : g_mapped[self]) {
    if (slot != nullptr) memset(slot, 1, kSize);
  }
  --g_busy;
  return nullptr;
}

}  // namespace

int main() {
  g_ranges.set_page_size(static_cast<size_t>(getpagesize()));
  pthread_barrier_init(&g_begin, nullptr, kThreads);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], nullptr, churn, reinterpret_cast<void*>(i));
  }
  unsigned dropped = 0;
  while (g_busy != 0) dropped += oom_guard::drop_unmapped(&g_ranges, g_scratch);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  while (oom_guard::drop_unmapped(&g_ranges, g_scratch)) {
  }
  CHECK(dropped > 0, "nothing was dropped meanwhile");
  size_t known = 0, found = 0;
  for (auto& slots : g_mapped) {
    for (void* slot : slots) {
      if (slot == nullptr) continue;
      known += kSize;
      CHECK(g_ranges.covers(reinterpret_cast<uintptr_t>(slot)), "%p is not known any more", slot);
    }
  }
  const unsigned count = g_ranges.snapshot(g_scratch);
  for (unsigned i = 0; i < count; ++i) found += g_scratch[i].to - g_scratch[i].from;
  CHECK(found >= known, "%zu bytes are known, not %zu", found, known);
  // The runtime of that sanitizer maps memory of its own, which comes to stand there too.
  CHECK(kUnderThreadSanitizer || found == known, "%zu bytes are known, not %zu", found, known);
  return 0;
}
