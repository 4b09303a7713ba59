// The one list of functions that hand memory out or take it back. Everything that must know them
// all (slot names, originals, wrappers) is generated from here; add a function here and nowhere
// else.
//
//   ALLOCATES(id, symbol, parameters, arguments)        returns the new block, or NULL
//   ALLOCATES_SIZE(id, symbol, parameters, arguments)   the same, of as many bytes as the first
//                                                       argument says and no special alignment
//   RELEASES(id, symbol, parameters, arguments)         the first argument is the block
//   OTHER(id, symbol, result, parameters)               written by hand in wrappers.cc
//
// operator new/delete carry their Itanium-ABI names. They are wrapped only where the provider of
// malloc owns them; in libstdc++ they call malloc and would be counted twice.
#pragma once

#include <cstddef>

#define OOM_GUARD_OPERATORS(ALLOCATES_SIZE, ALLOCATES, RELEASES)                                   \
  ALLOCATES_SIZE(op_new, "_Znwm", (size_t a), (a))                                                 \
  ALLOCATES_SIZE(op_new_array, "_Znam", (size_t a), (a))                                           \
  ALLOCATES_SIZE(op_new_nothrow, "_ZnwmRKSt9nothrow_t", (size_t a, const void* b), (a, b))         \
  ALLOCATES_SIZE(op_new_array_nothrow, "_ZnamRKSt9nothrow_t", (size_t a, const void* b), (a, b))   \
  ALLOCATES(op_new_aligned, "_ZnwmSt11align_val_t", (size_t a, size_t b), (a, b))                  \
  ALLOCATES(op_new_array_aligned, "_ZnamSt11align_val_t", (size_t a, size_t b), (a, b))            \
  ALLOCATES(op_new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t",                          \
            (size_t a, size_t b, const void* c), (a, b, c))                                        \
  ALLOCATES(op_new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t",                    \
            (size_t a, size_t b, const void* c), (a, b, c))                                        \
  RELEASES(op_delete, "_ZdlPv", (void* a), (a))                                                    \
  RELEASES(op_delete_array, "_ZdaPv", (void* a), (a))                                              \
  RELEASES(op_delete_sized, "_ZdlPvm", (void* a, size_t b), (a, b))                                \
  RELEASES(op_delete_array_sized, "_ZdaPvm", (void* a, size_t b), (a, b))                          \
  RELEASES(op_delete_nothrow, "_ZdlPvRKSt9nothrow_t", (void* a, const void* b), (a, b))            \
  RELEASES(op_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", (void* a, const void* b), (a, b))      \
  RELEASES(op_delete_aligned, "_ZdlPvSt11align_val_t", (void* a, size_t b), (a, b))                \
  RELEASES(op_delete_array_aligned, "_ZdaPvSt11align_val_t", (void* a, size_t b), (a, b))          \
  RELEASES(op_delete_sized_aligned, "_ZdlPvmSt11align_val_t", (void* a, size_t b, size_t c),       \
           (a, b, c))                                                                              \
  RELEASES(op_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", (void* a, size_t b, size_t c), \
           (a, b, c))                                                                              \
  RELEASES(op_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t",                       \
           (void* a, size_t b, const void* c), (a, b, c))                                          \
  RELEASES(op_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t",                 \
           (void* a, size_t b, const void* c), (a, b, c))

// jemalloc's extended interface, under whatever prefix.
#define OOM_GUARD_JEMALLOC(ALLOCATES, RELEASES, OTHER)            \
  ALLOCATES(mallocx, "mallocx", (size_t a, int b), (a, b))        \
  OTHER(rallocx, "rallocx", void*, (void*, size_t, int))          \
  OTHER(xallocx, "xallocx", size_t, (void*, size_t, size_t, int)) \
  RELEASES(dallocx, "dallocx", (void* a, int b), (a, b))          \
  RELEASES(sdallocx, "sdallocx", (void* a, size_t b, int c), (a, b, c))

#define OOM_GUARD_FAMILY(ALLOCATES_SIZE, ALLOCATES, RELEASES, OTHER)                           \
  ALLOCATES_SIZE(malloc, "malloc", (size_t a), (a))                                            \
  RELEASES(free, "free", (void* a), (a))                                                       \
  ALLOCATES(calloc, "calloc", (size_t a, size_t b), (a, b))                                    \
  OTHER(realloc, "realloc", void*, (void*, size_t))                                            \
  OTHER(reallocarray, "reallocarray", void*, (void*, size_t, size_t))                          \
  OTHER(posix_memalign, "posix_memalign", int, (void**, size_t, size_t))                       \
  ALLOCATES(aligned_alloc, "aligned_alloc", (size_t a, size_t b), (a, b))                      \
  ALLOCATES(memalign, "memalign", (size_t a, size_t b), (a, b))                                \
  ALLOCATES(valloc, "valloc", (size_t a), (a))                                                 \
  ALLOCATES(pvalloc, "pvalloc", (size_t a), (a))                                               \
  RELEASES(cfree, "cfree", (void* a), (a))                                                     \
  RELEASES(free_sized, "free_sized", (void* a, size_t b), (a, b))                              \
  RELEASES(free_aligned_sized, "free_aligned_sized", (void* a, size_t b, size_t c), (a, b, c)) \
  OOM_GUARD_JEMALLOC(ALLOCATES, RELEASES, OTHER)                                               \
  OOM_GUARD_OPERATORS(ALLOCATES_SIZE, ALLOCATES, RELEASES)

namespace oom_guard {

enum class Fn : unsigned {
#define OOM_GUARD_ID(id, ...) id,
  OOM_GUARD_FAMILY(OOM_GUARD_ID, OOM_GUARD_ID, OOM_GUARD_ID, OOM_GUARD_ID)
#undef OOM_GUARD_ID
      count
};

constexpr unsigned kFnCount = static_cast<unsigned>(Fn::count);

constexpr const char* kFnNames[kFnCount] = {
#define OOM_GUARD_NAME(id, symbol, ...) symbol,
    OOM_GUARD_FAMILY(OOM_GUARD_NAME, OOM_GUARD_NAME, OOM_GUARD_NAME, OOM_GUARD_NAME)
#undef OOM_GUARD_NAME
};

constexpr unsigned index_of(Fn fn) {
  return static_cast<unsigned>(fn);
}

// Without these four nothing can be counted; every other name only lowers the coverage.
constexpr Fn kCoreFns[] = {Fn::malloc, Fn::free, Fn::calloc, Fn::realloc};

}  // namespace oom_guard
