// jemalloc's interface, as far as the tests use it.
#pragma once

#include "books.h"

using Mallctl = int(const char*, void*, size_t*, void*, size_t);

inline Mallctl* preloaded_mallctl() {
  auto* mallctl = reinterpret_cast<Mallctl*>(dlsym(RTLD_DEFAULT, "mallctl"));
  if (mallctl == nullptr) missing("a preloaded jemalloc");
  return mallctl;
}
