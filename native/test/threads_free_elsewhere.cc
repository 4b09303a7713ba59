// 16 threads each allocate a million blocks that another thread frees: the books come back to the
// exact byte.
#include <pthread.h>

#include <atomic>
#include <cstring>

#include "check.h"

namespace {

constexpr int kThreads = 16;
constexpr int kBlocks = 1000000;
constexpr int kSlots = 4096;

std::atomic<void*> g_mailbox[kThreads][kSlots];

size_t size_of(int n) { return 1 + static_cast<size_t>(n * 37) % 700; }

// Puts its blocks into its neighbour's mailbox and frees what lies in its own.
void* churn(void* argument) {
  int self = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  for (int n = 0; n < kBlocks; ++n) {
    void* block = n % 3 == 0 ? calloc(1, size_t{size_of(n)}) : malloc(size_of(n));
    if (n % 5 == 0) block = realloc(block, size_of(n + 11));
    free(g_mailbox[(self + 1) % kThreads][n % kSlots].exchange(block));
    free(g_mailbox[self][(n * 7) % kSlots].exchange(nullptr));
  }
  return nullptr;
}

void round() {
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], nullptr, churn, reinterpret_cast<void*>(i));
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  for (auto& mailbox : g_mailbox) {
    for (auto& slot : mailbox) free(slot.exchange(nullptr));
  }
}

}  // namespace

int main() {
  engine().start(true);
  oom_guard::EngineAllocator allocator;
  engine().allocator(0, &allocator);
  CHECK(allocator.mechanism != 0, "nothing is counted: %s", allocator.note);
  // The loader caches thread stacks and their thread-local blocks; a first round fills its cache.
  pthread_t warm[kThreads];
  for (auto& thread : warm) {
    pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  }
  for (pthread_t thread : warm) pthread_join(thread, nullptr);

  Booked before = booked();
  int64_t live = engine().live();
  round();
  Booked after = booked();
  CHECK(after.allocated - before.allocated > uint64_t{kThreads} * kBlocks * 300,
        "the blocks were not counted");
  CHECK(engine().live() == live, "%lld bytes are left", (long long)(engine().live() - live));
  return 0;
}
