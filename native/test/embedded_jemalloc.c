/* A jemalloc inside a library: no hooks, and it calls itself through its own slots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct header {
  size_t size, unused;
};

EXPORT int inner_je_mallctl(const char* name, void* out, size_t* out_size, void* in,
                            size_t in_size) {
  (void)name, (void)out, (void)out_size, (void)in, (void)in_size;
  return ENOENT;
}
EXPORT size_t inner_je_malloc_usable_size(const void* block) {
  return block != NULL ? ((const struct header*)block)[-1].size : 0;
}
EXPORT void* inner_je_malloc(size_t size) {
  struct header* header = malloc(sizeof(*header) + size);
  if (header == NULL) return NULL;
  header->size = size;
  return header + 1;
}
EXPORT void inner_je_free(void* block) {
  if (block != NULL) free((struct header*)block - 1);
}
EXPORT void* inner_je_calloc(size_t count, size_t size) {
  void* block = inner_je_malloc(count * size);
  return block != NULL ? memset(block, 0, count * size) : NULL;
}
EXPORT void* inner_je_realloc(void* block, size_t size) {
  void* moved = inner_je_malloc(size);
  size_t old = inner_je_malloc_usable_size(block);
  if (moved != NULL && block != NULL) memcpy(moved, block, old < size ? old : size);
  inner_je_free(block);
  return moved;
}

EXPORT void* inner_get(size_t size) {
  return inner_je_malloc(size);
}
EXPORT void inner_put(void* block) {
  inner_je_free(block);
}
EXPORT void* inner_resize(void* block, size_t size) {
  return block != NULL ? inner_je_realloc(block, size) : inner_je_calloc(1, size);
}
