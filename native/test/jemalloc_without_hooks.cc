// A jemalloc inside a module whose hooks do not exist, or are all taken: it is reported, with the
// reason, and the rest is counted as if it were not there.
#include "books.h"

namespace {

void check(const char* library, const char* reason) {
  Since start;
  load(library);
  engine().rescan();
  oom_guard::EngineAllocator allocator;
  CHECK(find_allocator(library, &allocator), "%s is not reported", library);
  CHECK(mechanism_of(allocator) == oom_guard::Mechanism::kNone, "counted by mechanism %u",
        allocator.mechanism);
  CHECK(strstr(allocator.note, reason) != nullptr, "the note says only: %s", allocator.note);
  int64_t live = engine().live();
  void* block = malloc(1000);
  CHECK(engine().live() - live == static_cast<int64_t>(block_size(block)), "the rest");
  free(block);
}

}  // namespace

int main() {
  start_counting();
  check("libjemalloc_without_hooks.so", "no experimental.hooks");
  check("libjemalloc_hooks_taken.so", "four");
  return 0;
}
