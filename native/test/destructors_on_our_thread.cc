// A library that is unloaded while its slots are written goes when we let go of it: its destructors
// run on our thread, and may ask for the books.
#include <pthread.h>

#include <atomic>
#include <chrono>

#include "books.h"

namespace {

std::atomic<bool> g_stop{false};
std::atomic<unsigned> g_on_other_threads{0};
pthread_t g_loader;

void* rescan(void*) {
  while (!g_stop.load()) engine().rescan();
  return nullptr;
}

void at_end() {
  if (pthread_equal(pthread_self(), g_loader)) return;
  ++g_on_other_threads;
  CHECK(report_of("libc.so").found, "no images");
}

}  // namespace

int main() {
  start_counting();
  alarm(60);  // a deadlock ends in a signal
  g_loader = pthread_self();
  pthread_t rescanner;
  pthread_create(&rescanner, nullptr, rescan, nullptr);
  // How often a load meets a rescan depends on the machine: one meeting is needed, more are better.
  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&] {
    const auto passed = std::chrono::steady_clock::now() - start;
    return g_on_other_threads >= 20 ||
           (g_on_other_threads > 0 && passed > std::chrono::seconds(5)) ||
           passed > std::chrono::seconds(40);
  };
  unsigned loads = 0;
  while (!enough()) {
    void* handle = load("libcalls_back.so", RTLD_NOW);
    symbol<void(void (*)())>(handle, "call_at_end")(at_end);
    dlclose(handle);
    ++loads;
  }
  g_stop = true;
  pthread_join(rescanner, nullptr);
  CHECK(g_on_other_threads > 0, "in %u loads no destructor ran elsewhere", loads);
  return 0;
}
