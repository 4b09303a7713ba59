// An allocator inside an image, which no hook and no call site shows: its maps are noted at the
// image's own slots, and what of them is resident is its live bytes. Below a few megabytes an image
// only maps memory.
#include <sys/mman.h>

#include "books.h"

namespace {

constexpr size_t kMB = 1 << 20;

int64_t pages_of(const char* library) {
  oom_guard::EngineAllocator allocator;
  if (!find_allocator(library, &allocator)) return 0;
  CHECK(mechanism_of(allocator) == oom_guard::Mechanism::kPages, "%s is counted in another way",
        library);
  CHECK(strstr(allocator.name, "unknown (") != nullptr, "it is called %s", allocator.name);
  return allocator.live;
}

// Samples come every tenth of a second.
void expect(int64_t wanted, const char* when) {
  int64_t live = 0;
  for (int i = 0; i < 100; ++i) {
    usleep(50000);
    live = pages_of("libhidden_bump");
    if (live == wanted) return;
  }
  CHECK(live == wanted, "%s: %ld bytes, not %ld", when, static_cast<long>(live),
        static_cast<long>(wanted));
}

}  // namespace

int main(int argc, char** argv) {
  start_counting();
  void* handle = load(argc > 1 ? argv[1] : "libhidden_bump.so", RTLD_LAZY);
  engine().rescan();
  auto* open = symbol<int(size_t)>(handle, "hidden_open");
  auto* allocate = symbol<void*(size_t)>(handle, "hidden_allocate");
  auto* grow = symbol<int(size_t)>(handle, "hidden_grow");
  auto* unmap = symbol<int(size_t, size_t)>(handle, "hidden_unmap");
  auto* free_lazily = symbol<int(size_t, size_t)>(handle, "hidden_free_lazily");

  Since start;
  CHECK(open(256 * kMB), "nothing was mapped");
  CHECK(allocate(2 * kMB) != nullptr, "nothing was allocated");
  usleep(300000);
  CHECK(pages_of("libhidden_bump") == 0, "an image with 2 MB is called an allocator");

  allocate(62 * kMB);
  expect(64 * kMB, "allocated");
  CHECK(unmap(16 * kMB, 8 * kMB), "it was not unmapped");
  expect(56 * kMB, "a hole");
  errno = 7;
  CHECK(symbol<int()>(handle, "hidden_failed_unmap")() && errno == EINVAL, "errno %d", errno);
  CHECK(free_lazily(0, 8 * kMB), "it was not given back");
  expect(48 * kMB, "given back lazily");
  CHECK(symbol<int()>(handle, "hidden_close")(), "it was not unmapped");
  expect(0, "unmapped");

  CHECK(open(16 * kMB), "nothing was mapped");
  allocate(16 * kMB);
  CHECK(grow(64 * kMB), "it did not grow");
  allocate(32 * kMB);
  expect(48 * kMB, "moved and grown");

  // Unmapped past the slots, so that nobody is told; then somebody else's memory stands there.
  auto* unmap_secretly = symbol<void*(size_t, size_t)>(handle, "hidden_unmap_secretly");
  void* gone = unmap_secretly(4 * kMB, 8 * kMB);
  CHECK(gone != nullptr, "it was not unmapped");
  expect(40 * kMB, "unmapped secretly");
  void* taken = mmap(gone, 8 * kMB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  CHECK(taken == gone, "its place is taken");
  memset(taken, 1, 8 * kMB);
  usleep(500000);
  expect(40 * kMB, "somebody else's memory in its place");
  CHECK(start.live() < static_cast<int64_t>(kMB), "it was booked as well");
  return 0;
}
