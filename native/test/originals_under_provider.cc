// Counting starts under each provider of malloc: the originals that the wrappers call must be the
// provider's own, or blocks of two allocators get mixed up ("free(): invalid size", a double free).
// (async-profiler, issues 1309 and 1318, pull requests 1135 and 1269.)
#include <new>

#include "books.h"

namespace {

constexpr int kHeld = 512;

// Everything that may hand out a block, released by everything that may take it back.
void mixed_work(unsigned seed) {
  void* held[kHeld] = {};
  for (int n = 0; n < 20000; ++n) {
    seed = seed * 1664525 + 1013904223;
    void*& slot = held[(seed >> 8) % kHeld];
    size_t size = (seed >> 12) % 3000;
    switch (seed >> 29) {
      case 0:
        free(slot);
        slot = malloc(size);
        break;
      case 1:
        free(slot);
        slot = calloc(3, size);
        break;
      case 2:
        slot = realloc(slot, size + 1);
        break;
      case 3:
        free(slot);
        slot = memalign(256, size);
        break;
      case 4:
        free(slot);
        if (posix_memalign(&slot, 64, size) != 0) slot = nullptr;
        break;
      case 5:
        free(slot);
        slot = strdup("a copy made inside the C library");
        break;
      case 6: {
        auto* object = new char[size + 1];
        object[0] = 1;
        delete[] object;
        break;
      }
      default:
        ::operator delete (::operator new (size + 1, std::align_val_t{128}), std::align_val_t{128});
    }
    if (slot != nullptr) memset(slot, 0x5a, malloc_usable_size(slot) > 0 ? 1 : 0);
  }
  for (void* block : held) free(block);

  char text[] = "one line\nanother, which is a good deal longer than the first one\n";
  FILE* file = fmemopen(text, sizeof(text) - 1, "r");
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, file) > 0) {
  }
  free(line);
  fclose(file);
}

}  // namespace

int main() {
  // Handed out before anything is counted, taken back afterwards.
  void* early = malloc(5000);
  size_t early_size = malloc_usable_size(early);
  oom_guard::EngineAllocator allocator = start_counting();
  const char* choice = getenv("OOM_GUARD_TEST_JEMALLOC");
  bool hooks = choice != nullptr && strcmp(choice, "hooks") == 0;
  CHECK(mechanism_of(allocator) ==
            (hooks ? oom_guard::Mechanism::kHooks : oom_guard::Mechanism::kCallsites),
        "%s is counted by mechanism %u", allocator.name, allocator.mechanism);
  mixed_work(1);  // what is allocated once and kept, is kept now

  Since start;
  mixed_work(2);
  CHECK(start.allocated() > 10 << 20, "only %llu bytes were seen",
        (unsigned long long)start.allocated());
  CHECK(start.live() == 0, "%lld bytes are left", (long long)start.live());
  CHECK(start.allocator_agrees(), "glibc's own statistics moved otherwise");

  Since before_free;
  free(early);
  CHECK(before_free.freed() >= early_size, "freeing an early block was not seen");
  return 0;
}
