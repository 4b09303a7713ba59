// What allocators say of the memory they have mapped; for explaining RSS, not for counting.
#pragma once

#include <cstdint>

namespace oom_guard {

struct JemallocStatistics {  // bytes
  uint64_t resident;         // pages that may be resident; those never written to are in here too
  uint64_t mapped;           // active, dirty, and jemalloc's own tables
  uint64_t retained;         // unused address space that is kept mapped
};

// `image` is its path as the loader has it ("" is the executable), `prefix` what stands before
// `mallctl`. False when there is no such jemalloc, or it was built without statistics. Takes the
// arenas' locks. Nobody may unload the image meanwhile.
bool read_jemalloc_statistics(const char* image, const char* prefix, JemallocStatistics* out);

}  // namespace oom_guard
