// jemalloc has room for four users of its hooks. A fifth is refused, must say so, and count in
// another way or not at all.
#include "jemalloc_events.h"

namespace {

struct Hooks {
  void (*alloc)(void*, int, void*, uintptr_t, uintptr_t*);
  void (*dalloc)(void*, int, void*, uintptr_t*);
  void (*expand)(void*, int, void*, size_t, size_t, uintptr_t, uintptr_t*);
  void* extra;
};

}  // namespace

int main() {
  Mallctl* mallctl = preloaded_mallctl();
  for (int n = 0; n < 4; ++n) {
    Hooks hooks = {[](void*, int, void*, uintptr_t, uintptr_t*) {},
                   [](void*, int, void*, uintptr_t*) {},
                   [](void*, int, void*, size_t, size_t, uintptr_t, uintptr_t*) {}, nullptr};
    void* handle = nullptr;
    size_t size = sizeof(handle);
    int error = mallctl("experimental.hooks.install", &handle, &size, &hooks, sizeof(hooks));
    if (error == ENOENT) missing("jemalloc's experimental.hooks");
    CHECK(error == 0, "hook %d: error %d", n, error);
  }
  engine().start(true, jemalloc_choice());
  engine().rescan();
  oom_guard::EngineAllocator allocator;
  CHECK(find_allocator("jemalloc", &allocator), "jemalloc is not reported");
  CHECK(mechanism_of(allocator) != oom_guard::Mechanism::kHooks, "there are five hook users");
  if (mechanism_of(allocator) == oom_guard::Mechanism::kNone) {
    CHECK(strstr(allocator.note, "four") != nullptr, "the note says only: %s", allocator.note);
    return 0;
  }
  Since start;
  void* block = malloc(1000);
  CHECK(start.allocated() == block_size(block), "booked %llu bytes",
        (unsigned long long)start.allocated());
  free(block);
  CHECK(start.live() == 0, "%lld bytes are left", (long long)start.live());
  return 0;
}
