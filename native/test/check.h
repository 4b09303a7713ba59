// The smallest thing that can fail a test.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "engine/engine.h"

extern "C" const oom_guard::EngineApi oom_guard_engine_api;

inline const oom_guard::EngineApi& engine() {
  return oom_guard_engine_api;
}

// Fails the test, with a printf-like explanation.
#define CHECK(condition, ...)                                           \
  do {                                                                  \
    if (!(condition)) {                                                 \
      fprintf(stderr, "%s:%d: %s\n  ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                     \
      fprintf(stderr, "\n");                                            \
      _exit(1);                                                         \
    }                                                                   \
  } while (0)

#include <unistd.h>

// Bytes booked so far, over all allocators.
struct Booked {
  uint64_t allocated = 0, freed = 0;
};

inline Booked booked() {
  Booked sum;
  for (uint32_t i = 0; i < 64; ++i) {
    uint64_t allocated, freed;
    engine().shard(i, &allocated, &freed);
    sum.allocated += allocated;
    sum.freed += freed;
  }
  return sum;
}
