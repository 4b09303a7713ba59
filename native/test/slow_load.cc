// While some library's constructor runs, for seconds, the loader waits, and so does whoever wants
// to hold an image: neither the samples nor the readers of the books may wait with them.
#include <pthread.h>
#include <time.h>

#include <atomic>

#include "books.h"

namespace {

constexpr size_t kMB = 1 << 20;
std::atomic<bool> g_loaded{false};

void* load_slowly(void*) {
  load("libslow_constructor.so", RTLD_NOW);
  g_loaded = true;
  return nullptr;
}

int64_t milliseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void check_readers() {
  for (int n = 0; n < 20; ++n) {
    const int64_t start = milliseconds();
    engine().catch_up();
    CHECK(report_of("libc.so").found, "no images");
    uint64_t bytes;
    engine().in_use(0, &bytes);
    CHECK(milliseconds() - start < 500, "a reader waited for %d ms",
          static_cast<int>(milliseconds() - start));
  }
}

bool samples_reach(int64_t wanted) {
  for (int n = 0; n < 50 && !g_loaded; ++n) {
    oom_guard::EngineAllocator allocator;
    if (find_allocator("libhidden_bump.so", &allocator) && allocator.live == wanted) return true;
    usleep(20000);
  }
  return false;
}

}  // namespace

int main(int argc, char**) {
  start_counting();
  const bool samples = argc > 1;
  void* (*allocate)(size_t) = nullptr;
  if (samples) {
    void* hidden = load("libhidden_bump.so", RTLD_LAZY);
    allocate = symbol<void*(size_t)>(hidden, "hidden_allocate");
    engine().rescan();
    CHECK(symbol<int(size_t)>(hidden, "hidden_open")(64 * kMB), "nothing was mapped");
  }
  pthread_t loader;
  pthread_create(&loader, nullptr, load_slowly, nullptr);
  usleep(400000);  // the rescanning thread has met it
  check_readers();
  if (samples) {
    // Its first bulk, so that it becomes an allocator meanwhile, and more of it.
    for (int64_t step = 1; step <= 3; ++step) {
      allocate(8 * kMB);
      CHECK(samples_reach(step * 8 * static_cast<int64_t>(kMB)), "no samples, step %d",
            static_cast<int>(step));
    }
  }
  CHECK(!g_loaded, "the load was over too early");
  pthread_join(loader, nullptr);
  engine().rescan();
  CHECK(report_of("libslow_constructor.so").found, "it was not found afterwards");
  return 0;
}
