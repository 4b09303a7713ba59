// A thread that ended does not keep its shard: others would have to book with locked additions for
// ever. What it booked stays.
#include <pthread.h>

#include "check.h"
#include "counter/shards.h"
#include "os/os.h"

namespace {

oom_guard::Shards g_shards;

void* book(void*) {
  g_shards.book_allocated(100);
  g_shards.book_freed(40);
  return nullptr;
}

}  // namespace

int main() {
  CHECK(oom_guard::check_thread_numbers(), "the C library does not show a thread's number");
  book(nullptr);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) {
      pthread_t thread;
      CHECK(pthread_create(&thread, nullptr, book, nullptr) == 0, "no thread");
      pthread_join(thread, nullptr);
    }
    CHECK(g_shards.owned() > 32, "only %u shards were taken", g_shards.owned());
    // A joined thread may take a moment more to leave the kernel.
    for (int tries = 0; tries < 1000 && g_shards.owned() != 1; ++tries) {
      g_shards.disown_dead_threads(&oom_guard::os::thread_alive);
      oom_guard::os::sleep_ms(1);
    }
    CHECK(g_shards.owned() == 1, "%u shards are owned with one thread alive", g_shards.owned());
  }
  oom_guard::Totals totals = g_shards.sum();
  CHECK(totals.allocated == 301 * 100 && totals.freed == 301 * 40, "bytes were lost");
  return 0;
}
