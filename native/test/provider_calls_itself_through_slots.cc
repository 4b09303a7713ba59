// The provider of malloc reaches its own functions through its import slots: patched, each call
// would be booked twice. (Debian's jemalloc does so for several of its functions.)
#include "books.h"

int main() {
  oom_guard::EngineAllocator allocator = start_counting();
  for (int round = 0; round < 100; ++round) {
    size_t size = 1 + static_cast<size_t>(round) * 97;
    Since start;
    void* block = calloc(1, size);
    CHECK(start.allocated() == block_size(block) && start.freed() == 0,
          "calloc of %zu bytes booked as +%llu -%llu", size, (unsigned long long)start.allocated(),
          (unsigned long long)start.freed());
    block = realloc(block, size * 3);
    CHECK(start.live() == static_cast<int64_t>(block_size(block)), "realloc");
    free(block);
    CHECK(start.live() == 0, "free: %lld bytes are left", (long long)start.live());

    Since aligned;
    CHECK(posix_memalign(&block, 256, size) == 0, "posix_memalign");
    CHECK(aligned.allocated() == block_size(block), "posix_memalign");
    free(block);
    block = aligned_alloc(64, 64 * size);
    free(block);
    CHECK(aligned.live() == 0, "aligned: %lld bytes are left", (long long)aligned.live());
  }
  const char* base = strrchr(allocator.owner, '/');
  ImageReport report = report_of(base != nullptr ? base : allocator.owner);
  CHECK(report.found && report.patched == 0, "the provider's own slots were patched");
  return 0;
}
