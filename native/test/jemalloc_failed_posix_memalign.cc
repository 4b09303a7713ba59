// jemalloc tells its hooks of a posix_memalign that failed too, with whatever stood in *memptr:
// here a block that is in use, and then nonsense.
#include <initializer_list>

#include "jemalloc_events.h"

int main() {
  preloaded_mallctl();
  start_counting();
  void* block = malloc(1000);
  for (size_t size : {size_t{100}, SIZE_MAX / 2}) {
    for (size_t alignment : {size_t{3}, size_t{64}}) {
      for (void* stands : {block, static_cast<void*>(nullptr), reinterpret_cast<void*>(0x1234)}) {
        Since start;
        void* out = stands;
        if (posix_memalign(&out, alignment, size) == 0) {
          CHECK(alignment == 64 && size == 100, "that should have failed");
          CHECK(start.allocated() == block_size(out), "one that worked is not booked");
          free(out);
          CHECK(start.live() == 0, "%lld bytes are left", (long long)start.live());
        } else {
          CHECK(start.nothing(), "a failed posix_memalign is booked as +%llu -%llu",
                (unsigned long long)start.allocated(), (unsigned long long)start.freed());
        }
      }
    }
  }
  free(block);
  return 0;
}
