// A malloc of its own, and a free that aborts on a block that it did not hand out.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char g_memory[1 << 20] __attribute__((aligned(16)));
static size_t g_used;

static int is_ours(const void* block) {
  return (const char*)block >= g_memory && (const char*)block < g_memory + sizeof(g_memory);
}

void* malloc(size_t size) {
  size_t room = (size + 31) & ~(size_t)15;
  char* block = g_memory + g_used + 16;
  if (size > sizeof(g_memory) || g_used + room > sizeof(g_memory)) return NULL;
  ((size_t*)block)[-1] = size;
  g_used += room;
  return block;
}

void free(void* block) {
  if (block != NULL && !is_ours(block)) abort();
}

void* calloc(size_t count, size_t size) {
  return malloc(count * size);
}

void* realloc(void* old, size_t size) {
  if (old != NULL && !is_ours(old)) abort();
  void* block = malloc(size);
  if (block != NULL && old != NULL) {
    size_t old_size = ((size_t*)old)[-1];
    memcpy(block, old, old_size < size ? old_size : size);
  }
  return block;
}
