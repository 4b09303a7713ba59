// What a jemalloc under a prefix exports when it has no hooks (its development branch since 2026),
// or none left. Built twice.
#include <errno.h>
#include <stddef.h>
#include <string.h>

#ifndef HOOKS_ERROR
#error "say how experimental.hooks.install fails"
#endif
#define NAME2(prefix, name) prefix##name
#define NAME1(prefix, name) NAME2(prefix, name)
#define NAME(name) NAME1(PREFIX, name)

int NAME(mallctl)(const char* name, void* out, size_t* out_size, void* in, size_t in_size);
int NAME(mallctl)(const char* name, void* out, size_t* out_size, void* in, size_t in_size) {
  (void)out, (void)out_size, (void)in, (void)in_size;
  return strcmp(name, "experimental.hooks.install") == 0 ? HOOKS_ERROR : ENOENT;
}

size_t NAME(malloc_usable_size)(const void* block);
size_t NAME(malloc_usable_size)(const void* block) {
  return block != NULL ? 16 : 0;
}
