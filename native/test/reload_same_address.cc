// A library is unloaded and loaded again, mostly to where it was before: it is as unpatched as any
// new one. (async-profiler issue 1245.)
#include "books.h"

namespace {

constexpr int kLoads = 1000;
constexpr size_t kSize = 100;

template <class Condition>
bool within_a_moment(Condition condition) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (condition()) return true;
    usleep(100);
  }
  return false;
}

void reload(const char* name, int flags) {
  uintptr_t last = 0;
  int same = 0;
  // The loader and the report keep blocks of their own; what is checked is each use.
  for (int n = 0; n < kLoads; ++n) {
    void* handle = load(name, flags);
    auto* get = symbol<void*(size_t)>(handle, "user_get");
    auto* put = symbol<void(void*)>(handle, "user_put");
    auto* work = symbol<int(size_t)>(handle, "user_work");
    uintptr_t base = static_cast<link_map*>(handle)->l_addr;
    same += base == last;
    last = base;
    engine().rescan();
    for (int again = 0; again < 3; ++again) {
      Since start;
      void* block = get(kSize);
      size_t size = block_size(block);
      // The rescanning thread may look at the image at this moment; what it allocates it frees.
      CHECK(within_a_moment([&] { return start.live() == static_cast<int64_t>(size); }),
            "load %d: malloc booked as +%llu -%llu", n, (unsigned long long)start.allocated(),
            (unsigned long long)start.freed());
      put(block);
      CHECK(within_a_moment([&] { return start.live() == 0; }), "load %d: free booked as -%llu", n,
            (unsigned long long)start.freed());
      CHECK(work(kSize), "calloc");
      CHECK(start.allocated() > size, "load %d: calloc", n);
      CHECK(within_a_moment([&] { return start.live() == 0; }), "load %d: calloc", n);
    }
    dlclose(handle);
  }
  CHECK(same > kLoads / 2, "only %d of %d loads came to the same address", same, kLoads);
}

}  // namespace

int main() {
  start_counting();
  reload("liblazy_user.so", RTLD_LAZY);
  reload("libbound_user.so", RTLD_NOW);
  // Loaded and unloaded without anyone looking, then there again.
  for (int n = 0; n < 10; ++n) dlclose(load("liblazy_user.so"));
  reload("liblazy_user.so", RTLD_LAZY);
  return 0;
}
