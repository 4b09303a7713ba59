// Frees at the edges of a thread's life: as its first call of the allocator, and from the
// destructors of its thread-specific data, when the allocator has torn down what it kept for the
// thread. What is freed is booked by the exact byte there as well. (jemalloc makes a thread's data
// anew for each such free; we read its total of freed bytes there.)
#include <pthread.h>

#include "books.h"

namespace {

constexpr size_t kSizes[] = {1, 100, 4096, 5000, 100000, 3u << 20, 20u << 20};
constexpr int kBlocks = sizeof(kSizes) / sizeof(*kSizes);

// The destructors are called up to this often, as long as they set the value anew.
constexpr int kRounds = 4;

struct Life {
  void* first[kBlocks];              // freed as the first thing
  void* in_round[kRounds][kBlocks];  // freed by the destructor, when it is called that time
  int round = 0;
};

pthread_key_t g_late;

void release(void* (&blocks)[kBlocks]) {
  for (void* block : blocks) free(block);
}

uint64_t take(void* (&blocks)[kBlocks]) {
  uint64_t bytes = 0;
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kSizes[i]);
    CHECK(blocks[i] != nullptr, "no block of %zu bytes", kSizes[i]);
    bytes += block_size(blocks[i]);
  }
  return bytes;
}

void at_end(void* argument) {
  auto* life = static_cast<Life*>(argument);
  // What is allocated here goes as well.
  void* block = malloc(300);
  release(life->in_round[life->round]);
  free(block);
  if (++life->round < kRounds) pthread_setspecific(g_late, life);
}

void* live(void* argument) {
  auto* life = static_cast<Life*>(argument);
  release(life->first);
  pthread_setspecific(g_late, life);
  return nullptr;
}

void one_life() {
  static Life life;
  life = {};
  Since start;
  uint64_t bytes = take(life.first);
  for (auto& blocks : life.in_round) bytes += take(blocks);
  CHECK(start.allocated() == bytes, "%llu bytes booked as %llu", (unsigned long long)bytes,
        (unsigned long long)start.allocated());
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, live, &life) == 0, "no thread");
  pthread_join(thread, nullptr);
  CHECK(life.round == kRounds, "the destructor was called %d times", life.round);
  CHECK(start.live() == 0, "%lld bytes are left", (long long)start.live());
}

}  // namespace

int main() {
  // Made after the allocator's own key, so that its destructor is called after the allocator's.
  free(malloc(1));
  CHECK(pthread_key_create(&g_late, at_end) == 0, "no key");
  start_counting();
  one_life();
  for (int i = 0; i < 10; ++i) one_life();
  return 0;
}
