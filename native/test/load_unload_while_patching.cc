// Other threads load and unload libraries while new images are patched, and others allocate: an
// image may be half loaded, or gone, when its slots are to be written. (async-profiler issues 1250
// and 1256, openucx/ucx issue 3517 and memray issue 662: deadlocks in dl_iterate_phdr.)
#include "books.h"
#include "churning.h"

namespace {

constexpr int kLoaders = 3;
constexpr size_t kSize = 512;
std::atomic<bool> g_stop{false};
std::atomic<unsigned> g_loads{0};

void* load_and_unload(void* argument) {
  const char* names[] = {"liblazy_user.so", "libbound_user.so", "libother_user.so"};
  for (auto turn = reinterpret_cast<uintptr_t>(argument); !g_stop.load(); ++turn) {
    void* handle = load(names[turn % 3], turn % 2 == 0 ? RTLD_LAZY : RTLD_NOW);
    auto* work = symbol<int(size_t)>(handle, "user_work");
    for (int n = 0; n < 3; ++n) CHECK(work(kSize), "calloc");
    dlclose(handle);
    ++g_loads;
  }
  return nullptr;
}

}  // namespace

int main() {
  start_counting();
  Since start;
  pthread_t loaders[kLoaders];
  Churning churning(2);
  for (uintptr_t i = 0; i < kLoaders; ++i) {
    pthread_create(&loaders[i], nullptr, load_and_unload, reinterpret_cast<void*>(i));
  }
  repeat_for(2500, [] { engine().rescan(); });
  g_stop = true;
  for (pthread_t loader : loaders) pthread_join(loader, nullptr);
  churning.stop();
  CHECK(g_loads > 50, "only %u loads", g_loads.load());
  // A library's slots are written one after the other while it uses them, so one block a load may
  // be booked on one side only; and hooks see the loader's own blocks, some of which it keeps.
  int64_t bound = static_cast<int64_t>(g_loads.load()) * static_cast<int64_t>(kSize + 64) + 65536;
  CHECK(start.live() <= bound && start.live() >= -bound, "%lld bytes after %u loads",
        (long long)start.live(), g_loads.load());
  return 0;
}
