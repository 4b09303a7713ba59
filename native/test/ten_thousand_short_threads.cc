// Ten thousand threads that allocate, free and end. What a thread itself costs the loader (its
// thread-local blocks) is allocated and freed by the loader, past all slots, so with call sites the
// books come back to the byte. An allocator with hooks sees those blocks, and the C library keeps
// stacks, with their blocks, for later threads: up to 40 MB of stacks, at most as many as ever
// lived at once (16 here).
#include <pthread.h>

#include "books.h"

namespace {

constexpr int kThreads = 10000, kAtOnce = 16;
constexpr int64_t kThreadBlocks = 4096;  // a thread's blocks, generously

void* short_life(void* argument) {
  auto size = 1 + reinterpret_cast<uintptr_t>(argument) % 3000;
  void* block = malloc(size);
  block = realloc(block, 2 * size);
  free(block);
  free(strdup("and one from inside the C library"));
  return nullptr;
}

void run(int threads) {
  pthread_t running[kAtOnce];
  for (int done = 0; done < threads; done += kAtOnce) {
    for (int i = 0; i < kAtOnce; ++i) {
      auto* argument = reinterpret_cast<void*>(static_cast<uintptr_t>(done + i));
      CHECK(pthread_create(&running[i], nullptr, short_life, argument) == 0, "no thread");
    }
    for (pthread_t thread : running) pthread_join(thread, nullptr);
  }
}

}  // namespace

int main() {
  oom_guard::EngineAllocator allocator = start_counting();
  run(2 * kAtOnce);
  Since start;
  run(kThreads);
  CHECK(start.allocated() > uint64_t{kThreads} * 4000, "the threads' blocks were not counted");
  int64_t bound =
      mechanism_of(allocator) == oom_guard::Mechanism::kHooks ? kAtOnce * kThreadBlocks : 0;
  CHECK(start.live() <= bound && start.live() >= -bound, "%lld bytes are left",
        (long long)start.live());
  return 0;
}
