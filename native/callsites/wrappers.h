// The counting wrappers that patched import slots point at.
#pragma once

#include "callsites/family.h"
#include "callsites/freed_totals.h"
#include "counter/shards.h"

namespace oom_guard {

using AnyFn = void (*)();

// How the size of a block is had. Both sides of the books have the same one, in different ways.
enum class Sizer {
  kGlibcHeader,  // glibc's chunk header: what glibc's own statistics count, and no call
  kUsableSize,   // the provider's malloc_usable_size
  // The same, but asked for as seldom as can be. What a plain request of up to 4 KiB yields is
  // looked up in a table of size classes: jemalloc promises what nallocx() says, and it was checked
  // for every entry. What a free gives back is what jemalloc's total of the thread grows by.
  kJemalloc,
};

using UsableSizeFn = size_t (*)(void*);

// A replacement for each function of the family; null where a name is not replaced.
struct WrapperSet {
  AnyFn fn[kFnCount];
};

// Heap 0 is the process malloc; the others are allocators inside an image, which is then the only
// one that calls them.
constexpr unsigned kHeaps = 4;

// Publishes what the wrappers of a heap call. Must happen before the first slot is written, and
// once per heap: slots are never given back.
void publish_originals(unsigned heap, const AnyFn (&originals)[kFnCount], UsableSizeFn usable_size);

// Where the wrappers of a heap book.
Shards& wrapper_shards(unsigned heap);

// The wrappers that count. Heaps other than 0 know kUsableSize only.
const WrapperSet& counting_wrappers(unsigned heap, Sizer sizer);

// What kJemalloc needs; for heap 0, after publish_originals. False, and it is not to be used, when
// one entry of the table is not what a block really weighs, or there are no totals.
bool learn_size_classes(size_t (*size_of_request)(size_t bytes, int flags));
bool learn_freed_totals(MallctlFn mallctl);

// A `free` for heap 0 that does not book what ld.so frees: for an executable whose stub receives
// ld.so's frees while ld.so's allocations never pass it (Node 26). [start, end) is ld.so's image.
AnyFn free_unless_loader(Sizer sizer, uintptr_t loader_start, uintptr_t loader_end);

// Wrappers that count nothing but note that the probing thread passed through them. With them in
// libc's slots one learns which functions nest into another (reallocarray into realloc).
const WrapperSet& probing_wrappers();
void begin_probe();
unsigned end_probe();  // how many wrapped calls the calling thread made since begin_probe()

// The low bits of the size in a chunk's header are flags; one says that the chunk is a map of its
// own.
constexpr size_t kGlibcFlags = 7, kGlibcMapped = 2;

// The size that glibc's header gives for a block, as its statistics count it.
inline size_t glibc_block_size(const void* block) noexcept {
  const size_t* header = static_cast<const size_t*>(block) - 1;
  size_t size = *header & ~kGlibcFlags;
  // A mapped block that was aligned keeps the bytes before it in the field in front of the size.
  if (__builtin_expect((*header & kGlibcMapped) != 0, 0)) size += header[-1];
  return size;
}

}  // namespace oom_guard
