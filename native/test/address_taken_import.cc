// ld puts an import whose address is taken into the hash table, where otherwise definitions are,
// and gives it no value (most PIE programs of Debian and coreutils' libstdbuf are like that). A
// walk over "the imports before the hashed symbols" misses it, and none of its calls is counted.
#include "books.h"

int main() {
  void* (*volatile get)(size_t) = malloc;
  void (*volatile put)(void*) = free;
  put(get(10));
  start_counting();
  Since start;
  void* block = malloc(1000);
  CHECK(start.allocated() == block_size(block), "malloc: +%llu",
        (unsigned long long)start.allocated());
  free(block);
  CHECK(start.live() == 0, "free: -%llu", (unsigned long long)start.freed());
  return 0;
}
