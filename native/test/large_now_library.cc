// A library with thousands of imports, bound at once, takes the loader milliseconds to relocate.
// Its slots must not be written meanwhile, and its RELRO pages not be "restored" to read-only under
// the loader's hands. (Seen on Node 26: 10 of 10 runs faulted.)
#include "books.h"
#include "churning.h"

namespace {

constexpr int kLoads = 100;
constexpr const char* kLibraries[] = {"liblarge_now_a.so", "liblarge_now_b.so"};
std::atomic<bool> g_stop{false};

void* load_large(void* name) {
  for (int n = 0; n < kLoads; ++n) {
    void* handle = load(static_cast<const char*>(name), RTLD_NOW | RTLD_LOCAL);
    CHECK(symbol<int()>(handle, "large_sum")() > 0, "wrong sum");
    dlclose(handle);
  }
  return nullptr;
}

void* rescan_often(void*) {
  while (!g_stop.load()) {
    engine().rescan();
    timespec tick = {0, 50000};  // and what the kernel adds
    nanosleep(&tick, nullptr);
  }
  return nullptr;
}

}  // namespace

int main() {
  start_counting();
  Churning churning(1);
  pthread_t loaders[2], rescanner;
  pthread_create(&rescanner, nullptr, rescan_often, nullptr);
  for (int i = 0; i < 2; ++i) {
    pthread_create(&loaders[i], nullptr, load_large, const_cast<char*>(kLibraries[i]));
  }
  for (pthread_t loader : loaders) pthread_join(loader, nullptr);
  g_stop = true;
  pthread_join(rescanner, nullptr);
  churning.stop();

  void* handle = load(kLibraries[0], RTLD_NOW | RTLD_LOCAL);
  engine().rescan();
  Since start;
  CHECK(symbol<int()>(handle, "large_sum")() > 0, "wrong sum");
  CHECK(start.allocated() > 0 && start.live() == 0, "it is not counted once it is loaded");
  return 0;
}
