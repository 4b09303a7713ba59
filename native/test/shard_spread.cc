// Twenty threads use at least 14 of the 64 shards, whatever their stack size.
#include <pthread.h>

#include <bitset>

#include "check.h"
#include "counter/shards.h"

namespace {

constexpr int kThreads = 20;
pthread_barrier_t g_all_alive;

void* note_shard(void* out) {
  *static_cast<unsigned*>(out) = oom_guard::shard_of(oom_guard::thread_number());
  pthread_barrier_wait(&g_all_alive);  // or two would get the same stack, one after the other
  return nullptr;
}

}  // namespace

int main() {
  CHECK(oom_guard::check_thread_numbers(), "the C library does not show a thread's number");
  for (size_t stack = 64 << 10; stack <= 64u << 20; stack *= 2) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    pthread_barrier_init(&g_all_alive, nullptr, kThreads);
    pthread_t threads[kThreads];
    unsigned shard[kThreads];
    for (int i = 0; i < kThreads; ++i) {
      CHECK(pthread_create(&threads[i], &attributes, note_shard, &shard[i]) == 0, "no thread");
    }
    std::bitset<oom_guard::kShardCount> used;
    for (int i = 0; i < kThreads; ++i) {
      pthread_join(threads[i], nullptr);
      used.set(shard[i]);
    }
    CHECK(used.count() >= 14, "%zu shards for %d threads with stacks of %zu KiB", used.count(),
          kThreads, stack >> 10);
  }
  return 0;
}
