// A library that allocates: built several times, bound lazily or at once, with other neighbours.
#include <stdlib.h>

__attribute__((visibility("default"))) void* user_get(size_t size) {
  return malloc(size);
}
__attribute__((visibility("default"))) void user_put(void* block) {
  free(block);
}

// Its own alone, so that the books are even afterwards whether or not its slots count.
__attribute__((visibility("default"))) int user_work(size_t size) {
  char* block = calloc(1, size);
  if (block == NULL) return 0;
  block[0] = 1;
  int fine = block[size - 1] == 0;
  free(block);
  return fine;
}
