// An allocator that nobody can see: it takes memory from the kernel and calls no malloc.
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static char* g_chunk;
static size_t g_size, g_used;

EXPORT int hidden_open(size_t size) {
  g_chunk = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // A huge page would be resident as a whole.
  if (g_chunk != MAP_FAILED) madvise(g_chunk, size, MADV_NOHUGEPAGE);
  g_size = size;
  g_used = 0;
  return g_chunk != MAP_FAILED;
}

EXPORT void* hidden_allocate(size_t size) {
  char* block = g_chunk + g_used;
  if (size > g_size - g_used) return NULL;
  g_used += size;
  memset(block, 1, size);
  return block;
}

EXPORT int hidden_grow(size_t size) {
  void* moved = mremap(g_chunk, g_size, size, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return 0;
  g_chunk = moved;
  g_size = size;
  return 1;
}

// Takes a hole out of the middle.
EXPORT int hidden_unmap(size_t from, size_t size) {
  return munmap(g_chunk + from, size) == 0;
}

// The same, past the slots. Where it was.
EXPORT void* hidden_unmap_secretly(size_t from, size_t size) {
  return syscall(SYS_munmap, g_chunk + from, size) == 0 ? g_chunk + from : NULL;
}

// Gives pages back as late as the kernel likes.
EXPORT int hidden_free_lazily(size_t from, size_t size) {
  return madvise(g_chunk + from, size, MADV_FREE) == 0;
}

EXPORT int hidden_failed_unmap(void) {
  return munmap(g_chunk + 1, 4096) != 0;
}

EXPORT int hidden_close(void) {
  return munmap(g_chunk, g_size) == 0;
}
