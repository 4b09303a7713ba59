// Threads that allocate blocks which other threads free.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace churn {

constexpr int kThreads = 16;
constexpr int kBlocks = 1000000;
constexpr int kSlots = 4096;

inline std::atomic<void*> g_mailbox[kThreads][kSlots];

inline size_t size_of(int n) {
  return 1 + static_cast<size_t>(n * 37) % 700;
}

// Puts its blocks into its neighbour's mailbox and frees what lies in its own.
inline void* run(void* argument) {
  int self = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  for (int n = 0; n < kBlocks; ++n) {
    void* block = n % 3 == 0 ? calloc(1, size_t{size_of(n)}) : malloc(size_of(n));
    if (n % 5 == 0) block = realloc(block, size_of(n + 11));
    free(g_mailbox[(self + 1) % kThreads][n % kSlots].exchange(block));
    free(g_mailbox[self][(n * 7) % kSlots].exchange(nullptr));
  }
  return nullptr;
}

inline void churn_round() {
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], nullptr, run, reinterpret_cast<void*>(i));
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  for (auto& mailbox : g_mailbox) {
    for (auto& slot : mailbox) free(slot.exchange(nullptr));
  }
}

}  // namespace churn
