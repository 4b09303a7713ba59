// A library with thousands of imports, bound at once, takes the loader milliseconds to relocate. Its
// slots must not be written meanwhile, and its RELRO pages not be "restored" to read-only under the
// loader's hands. (Seen on Node 26: 10 of 10 runs faulted.)
#include "books.h"
#include "churning.h"

namespace {

constexpr int kLoads = 20;
constexpr int kLoaders = 2;
std::atomic<int> g_left{kLoads};
std::atomic<bool> g_stop{false};

void* load_large(void*) {
  while (g_left.fetch_sub(1) > 0) {
    void* handle = load("liblarge_now.so", RTLD_NOW | RTLD_LOCAL);
    CHECK(symbol<int()>(handle, "large_sum")() > 0, "wrong sum");
    dlclose(handle);
  }
  return nullptr;
}

void* rescan_each_millisecond(void*) {
  while (!g_stop.load()) {
    engine().rescan();
    timespec tick = {0, 1000000};
    nanosleep(&tick, nullptr);
  }
  return nullptr;
}

}  // namespace

int main() {
  start_counting();
  Churning churning(1);
  pthread_t loaders[kLoaders], rescanner;
  pthread_create(&rescanner, nullptr, rescan_each_millisecond, nullptr);
  for (pthread_t& loader : loaders) pthread_create(&loader, nullptr, load_large, nullptr);
  for (pthread_t loader : loaders) pthread_join(loader, nullptr);
  g_stop = true;
  pthread_join(rescanner, nullptr);
  churning.stop();

  void* handle = load("liblarge_now.so", RTLD_NOW | RTLD_LOCAL);
  engine().rescan();
  Since start;
  CHECK(symbol<int()>(handle, "large_sum")() > 0, "wrong sum");
  CHECK(start.allocated() > 0 && start.live() == 0, "it is not counted once it is loaded");
  return 0;
}
