// A rescan that finds another one under way must not return before that one is done: its caller
// relies on what it loaded being counted from there on.
#include "books.h"
#include "churning.h"

namespace {

std::atomic<bool> g_stop{false};

void* rescan(void*) {
  while (!g_stop.load()) engine().rescan();
  return nullptr;
}

}  // namespace

int main() {
  start_counting();
  pthread_t rescanner;
  pthread_create(&rescanner, nullptr, rescan, nullptr);
  unsigned missed = 0, loads = 0;
  repeat_for(1000, [&] {
    void* handle = load("libbound_user.so", RTLD_NOW);
    auto* work = symbol<int(size_t)>(handle, "user_work");
    engine().rescan();
    Since start;
    CHECK(work(1000), "calloc");
    missed += start.allocated() == 0;
    ++loads;
    dlclose(handle);
  });
  g_stop = true;
  pthread_join(rescanner, nullptr);
  CHECK(missed == 0, "%u of %u loads were not counted after a rescan", missed, loads);
  return 0;
}
