// A thread that ended does not keep its shard: a thread that falls on the same one would have to
// book with locked additions for ever. What the dead one booked stays.
#include <pthread.h>

#include "check.h"
#include "counter/shards.h"

namespace {

oom_guard::Shards g_shards;
constexpr int kBookings = 2000;

void* book_once(void*) {
  g_shards.book_allocated(100);
  return nullptr;
}

void* book_often(void* owns) {
  for (int i = 0; i < kBookings; ++i) {
    g_shards.book_allocated(100);
    g_shards.book_freed(100);
  }
  *static_cast<bool*>(owns) =
      g_shards.owner(oom_guard::shard_of(oom_guard::thread_number())) == oom_guard::thread_number();
  return nullptr;
}

void run(void* (*body)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, body, argument) == 0, "no thread");
  pthread_join(thread, nullptr);
}

}  // namespace

int main() {
  CHECK(oom_guard::check_thread_numbers(), "the C library does not show a thread's number");
  constexpr int kThreads = 200;
  for (int i = 0; i < kThreads; ++i) run(book_once, nullptr);
  constexpr int kOften = 100;
  int owners = 0;
  for (int i = 0; i < kOften; ++i) {
    bool owns = false;
    run(book_often, &owns);
    owners += owns;
  }
  // Not the one that falls on the shard of a thread that lives: there is none here.
  CHECK(owners == kOften, "%d of %d threads that book often own their shard", owners, kOften);
  oom_guard::Totals totals = g_shards.sum();
  CHECK(totals.allocated == (kThreads + kOften * kBookings) * 100ull &&
            totals.freed == kOften * kBookings * 100ull,
        "bytes were lost");
  return 0;
}
