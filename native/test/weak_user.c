// Asks whether a function exists before it calls it.
#include <stdlib.h>

int weak_definitions_version(void);
__attribute__((weak)) void* valloc(size_t size);
__attribute__((weak)) void free_sized(void* block, size_t size);
__attribute__((weak)) void free_aligned_sized(void* block, size_t alignment, size_t size);

int weak_has_valloc(void) {
  return valloc != NULL;
}
int weak_has_free_sized(void) {
  return free_sized != NULL;
}
int weak_has_free_aligned_sized(void) {
  return free_aligned_sized != NULL;
}

int weak_work(size_t size) {
  void* block = valloc != NULL ? valloc(size) : malloc(size);
  if (block == NULL) return 0;
  if (free_sized != NULL) {
    free_sized(block, size);
  } else {
    free(block);
  }
  return weak_definitions_version();
}
