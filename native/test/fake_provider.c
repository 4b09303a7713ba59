// Preloaded, it provides malloc, and calls itself through its own slots, as Debian's jemalloc does.
// Each block is preceded by its own address in libc's heap and its size.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
size_t malloc_usable_size(void* block);
void* memalign(size_t alignment, size_t size);

struct header {
  void* raw;
  size_t size;
};

void* memalign(size_t alignment, size_t size) {
  if (alignment < 16) alignment = 16;
  if (size > PTRDIFF_MAX - alignment) {
    errno = ENOMEM;
    return NULL;
  }
  char* raw = __libc_memalign(alignment, size + alignment);
  if (raw == NULL) return NULL;
  struct header* header = (struct header*)(raw + alignment) - 1;
  header->raw = raw;
  header->size = size;
  return raw + alignment;
}

void* malloc(size_t size) {
  return memalign(16, size);
}

void free(void* block) {
  if (block != NULL) __libc_free(((struct header*)block - 1)->raw);
}

size_t malloc_usable_size(void* block) {
  return ((struct header*)block - 1)->size;
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void* block = malloc(bytes);
  if (block != NULL) memset(block, 0, bytes);
  return block;
}

void* realloc(void* old, size_t size) {
  void* block = malloc(size);
  if (block == NULL || old == NULL) return block;
  size_t old_size = malloc_usable_size(old);
  memcpy(block, old, old_size < size ? old_size : size);
  free(old);
  return block;
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* block = memalign(alignment, size);
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
void* valloc(size_t size) {
  return memalign(4096, size);
}
