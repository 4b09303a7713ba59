// No TLS, no lock, no allocation, no logging, no errno: only the original, the size of the block
// and two relaxed adds. Built with -fno-builtin-malloc and its siblings, so that the compiler does
// not turn a wrapper into a call of the function that it wraps.
#include "callsites/wrappers.h"

#include <atomic>

#include "callsites/large_allocations.h"

namespace oom_guard {
namespace {

#define OOM_GUARD_PLAIN_RESULT(id, symbol, params, args) void*(*id)params;
#define OOM_GUARD_PLAIN_VOID(id, symbol, params, args) void(*id) params;
#define OOM_GUARD_PLAIN_OTHER(id, symbol, result, params) result(*id) params;
struct Originals {
  OOM_GUARD_FAMILY(OOM_GUARD_PLAIN_RESULT, OOM_GUARD_PLAIN_RESULT, OOM_GUARD_PLAIN_VOID,
                   OOM_GUARD_PLAIN_OTHER)
};

struct Heap {
  Originals original;
  UsableSizeFn usable_size;
};

// Written once by publish_originals, before any slot can lead a thread here.
Heap g_heaps[kHeaps];
// Addressed directly: through a pointer every call would load it first.
Shards g_shards[kHeaps];
uintptr_t g_loader_start, g_loader_size;

// What blocks of up to kMaxRequest bytes weigh, by the eighth part of the request, rounded up; 0
// where that is not known.
constexpr size_t kMaxRequest = 4096;
uint16_t g_request_sizes[kMaxRequest / 8 + 1];

intptr_t g_freed_totals;  // how far from the thread pointer

// `of_request` gives the size of a block from what was asked for where that is certain, else 0.
// `is_small` gives the size of a block that needs nothing but to be booked: it is not large, and
// the size stands in one place.
// `kTotalsFrees`: what was freed is told by a total, so it is known only afterwards.
template <unsigned kHeap>
struct GlibcHeader {
  static constexpr bool kTotalsFrees = false;
  static size_t of(void* block) noexcept { return glibc_block_size(block); }
  static size_t of_request(size_t) noexcept { return 0; }
  static bool is_small(void* block, size_t* bytes) noexcept {
    const size_t header = static_cast<const size_t*>(block)[-1];
    *bytes = header & ~kGlibcFlags;
    return (header & (kGlibcMapped | ~(kLargeAllocation - 1))) == 0;
  }
};
template <unsigned kHeap>
struct ProviderUsableSize {
  static constexpr bool kTotalsFrees = false;
  static size_t of(void* block) noexcept { return g_heaps[kHeap].usable_size(block); }
  static size_t of_request(size_t) noexcept { return 0; }
  static bool is_small(void* block, size_t* bytes) noexcept {
    *bytes = of(block);
    return *bytes < kLargeAllocation;
  }
};

template <unsigned kHeap>
struct Jemalloc : ProviderUsableSize<kHeap> {
  // Its usable size is a search in a tree, which its free repeats.
  static constexpr bool kTotalsFrees = true;
  static size_t of_request(size_t bytes) noexcept {
    return bytes <= kMaxRequest ? g_request_sizes[(bytes + 7) / 8] : 0;
  }
};

// Books into the shards.
template <unsigned kHeap, template <unsigned> class SizeOf>
struct Counting {
  using Token = size_t;
  static constexpr unsigned heap = kHeap;
  static void allocated(void* block) noexcept {
    size_t bytes;
    if (__builtin_expect(SizeOf<kHeap>::is_small(block, &bytes), 1)) {
      g_shards[kHeap].book_allocated(bytes);
    } else {
      allocated_large(block);
    }
  }
  static void allocated_of_size(void* block, size_t requested) noexcept {
    const size_t bytes = SizeOf<kHeap>::of_request(requested);
    if (bytes != 0) {
      g_shards[kHeap].book_allocated(bytes);
    } else {
      allocated(block);
    }
  }
  static Token before(void* block) noexcept { return SizeOf<kHeap>::of(block); }
  static void freed(Token bytes) noexcept { g_shards[kHeap].book_freed(bytes); }
  // Booked before the block is given back where that can be: unmapping a large one takes
  // milliseconds.
  template <class Release>
  __attribute__((always_inline)) static void released(void* block, Release release) {
    if constexpr (SizeOf<kHeap>::kTotalsFrees) {
      const uint64_t total = freed_total_at(g_freed_totals);
      release();
      freed(freed_total_at(g_freed_totals) - total);
    } else if (__builtin_expect(block == nullptr, 0) ||
               g_shards[kHeap].book_freed_as_owner(before(block))) {
      release();
    } else {
      released_unowned(block, release);
    }
  }
  static void resized(Token old_bytes, void* block) noexcept {
    const size_t bytes = SizeOf<kHeap>::of(block);
    g_shards[kHeap].book_resized(old_bytes, bytes);
    note_allocation(bytes);
  }
  static void resized_in_place(Token old_bytes, size_t bytes) noexcept {
    if (old_bytes != bytes) g_shards[kHeap].book_resized(old_bytes, bytes);
  }

 private:
  // Called last, so that what calls it keeps nothing across a call.
  template <class Release>
  __attribute__((noinline, cold)) static void released_unowned(void* block, Release release) {
    freed(before(block));
    release();
  }
  __attribute__((noinline, cold)) static void allocated_large(void* block) noexcept {
    const size_t bytes = SizeOf<kHeap>::of(block);
    g_shards[kHeap].book_allocated(bytes);
    note_allocation(bytes);
  }
};

// Only notes that the probing thread was here; other threads are none of its business.
std::atomic<uintptr_t> g_prober{0};
std::atomic<unsigned> g_probed{0};
struct Probing {
  struct Token {};
  static constexpr unsigned heap = 0;
  static void note() noexcept {
    if (g_prober.load(std::memory_order_relaxed) == thread_pointer()) {
      g_probed.fetch_add(1, std::memory_order_relaxed);
    }
  }
  static void allocated(void*) noexcept { note(); }
  static void allocated_of_size(void*, size_t) noexcept { note(); }
  static Token before(void*) noexcept { return {}; }
  static void freed(Token) noexcept { note(); }
  template <class Release>
  __attribute__((always_inline)) static void released(void* block, Release release) {
    if (block != nullptr) note();
    release();
  }
  static void resized(Token, void*) noexcept { note(); }
  static void resized_in_place(Token, size_t) noexcept { note(); }
};

template <class Book>
struct Wrap {
  static constexpr const Originals& original() { return g_heaps[Book::heap].original; }

#define OOM_GUARD_WRAP_ALLOCATES(id, symbol, params, args)             \
  static void* id params {                                             \
    void* block = original().id args;                                  \
    if (__builtin_expect(block != nullptr, 1)) Book::allocated(block); \
    return block;                                                      \
  }
#define OOM_GUARD_WRAP_ALLOCATES_SIZE(id, symbol, params, args)                   \
  static void* id params {                                                        \
    void* block = original().id args;                                             \
    if (__builtin_expect(block != nullptr, 1)) Book::allocated_of_size(block, a); \
    return block;                                                                 \
  }
#define OOM_GUARD_WRAP_RELEASES(id, symbol, params, args) \
  static void id params {                                 \
    Book::released(a, [=] { original().id args; });       \
  }
#define OOM_GUARD_BY_HAND(...)
  OOM_GUARD_FAMILY(OOM_GUARD_WRAP_ALLOCATES_SIZE, OOM_GUARD_WRAP_ALLOCATES, OOM_GUARD_WRAP_RELEASES,
                   OOM_GUARD_BY_HAND)

  static void* realloc(void* old_block, size_t size) {
    if (old_block == nullptr) {
      void* block = original().realloc(nullptr, size);
      if (block != nullptr) Book::allocated(block);
      return block;
    }
    auto token = Book::before(old_block);
    return resized(token, original().realloc(old_block, size), size == 0);
  }

  static void* reallocarray(void* old_block, size_t count, size_t size) {
    if (old_block == nullptr) {
      void* block = original().reallocarray(nullptr, count, size);
      if (block != nullptr) Book::allocated(block);
      return block;
    }
    auto token = Book::before(old_block);
    return resized(token, original().reallocarray(old_block, count, size), count == 0 || size == 0);
  }

  static int posix_memalign(void** out, size_t alignment, size_t size) {
    int error = original().posix_memalign(out, alignment, size);
    if (error == 0 && *out != nullptr) Book::allocated(*out);
    return error;
  }

  static void* rallocx(void* old_block, size_t size, int flags) {
    auto token = Book::before(old_block);
    return resized(token, original().rallocx(old_block, size, flags), false);
  }

  // Resizes in place and returns the usable size that the block has then.
  static size_t xallocx(void* block, size_t size, size_t extra, int flags) {
    auto token = Book::before(block);
    size_t usable = original().xallocx(block, size, extra, flags);
    Book::resized_in_place(token, usable);
    return usable;
  }

  static void free_unless_loader(void* block) {
    uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    if (block != nullptr && caller - g_loader_start >= g_loader_size) {
      Book::freed(Book::before(block));
    }
    original().free(block);
  }

 private:
  // NULL for a size of zero means that the old block was freed; NULL otherwise, that it still
  // stands.
  static void* resized(typename Book::Token token, void* block, bool zero) {
    if (block != nullptr) {
      Book::resized(token, block);
    } else if (zero) {
      Book::freed(token);
    }
    return block;
  }
};

template <class Book>
const WrapperSet& wrapper_set() {
  static const WrapperSet set = {{
#define OOM_GUARD_ENTRY(id, ...) reinterpret_cast<AnyFn>(&Wrap<Book>::id),
      OOM_GUARD_FAMILY(OOM_GUARD_ENTRY, OOM_GUARD_ENTRY, OOM_GUARD_ENTRY, OOM_GUARD_ENTRY)
#undef OOM_GUARD_ENTRY
  }};
  return set;
}

}  // namespace

void publish_originals(unsigned heap, const AnyFn (&originals)[kFnCount],
                       UsableSizeFn usable_size) {
  Originals& to = g_heaps[heap].original;
#define OOM_GUARD_STORE(id, ...) \
  to.id = reinterpret_cast<decltype(to.id)>(originals[index_of(Fn::id)]);
  OOM_GUARD_FAMILY(OOM_GUARD_STORE, OOM_GUARD_STORE, OOM_GUARD_STORE, OOM_GUARD_STORE)
#undef OOM_GUARD_STORE
  g_heaps[heap].usable_size = usable_size;
  std::atomic_thread_fence(std::memory_order_release);
}

Shards& wrapper_shards(unsigned heap) {
  return g_shards[heap];
}

const WrapperSet& counting_wrappers(unsigned heap, Sizer sizer) {
  switch (heap) {
    case 1:
      return wrapper_set<Counting<1, ProviderUsableSize>>();
    case 2:
      return wrapper_set<Counting<2, ProviderUsableSize>>();
    case 3:
      return wrapper_set<Counting<3, ProviderUsableSize>>();
    default:
      break;
  }
  switch (sizer) {
    case Sizer::kGlibcHeader:
      return wrapper_set<Counting<0, GlibcHeader>>();
    case Sizer::kJemalloc:
      return wrapper_set<Counting<0, Jemalloc>>();
    default:
      return wrapper_set<Counting<0, ProviderUsableSize>>();
  }
}

bool learn_size_classes(size_t (*size_of_request)(size_t bytes, int flags)) {
  const Heap& heap = g_heaps[0];
  for (size_t i = 1; i <= kMaxRequest / 8; ++i) {
    const size_t expected = size_of_request(i * 8, 0);
    void* block = heap.original.malloc(i * 8);
    const bool agrees = block != nullptr && heap.usable_size(block) == expected &&
                        size_of_request(i * 8 - 7, 0) == expected && expected <= UINT16_MAX;
    heap.original.free(block);
    if (!agrees) return false;
    g_request_sizes[i] = static_cast<uint16_t>(expected);
  }
  return true;
}

bool learn_freed_totals(MallctlFn mallctl) {
  const Heap& heap = g_heaps[0];
  g_freed_totals =
      find_freed_totals({mallctl, heap.original.malloc, heap.original.free, heap.usable_size});
  return g_freed_totals != 0;
}

AnyFn free_unless_loader(Sizer sizer, uintptr_t loader_start, uintptr_t loader_end) {
  g_loader_start = loader_start;
  g_loader_size = loader_end - loader_start;
  std::atomic_thread_fence(std::memory_order_release);
  return sizer == Sizer::kGlibcHeader
             ? reinterpret_cast<AnyFn>(&Wrap<Counting<0, GlibcHeader>>::free_unless_loader)
             : reinterpret_cast<AnyFn>(&Wrap<Counting<0, ProviderUsableSize>>::free_unless_loader);
}

const WrapperSet& probing_wrappers() {
  return wrapper_set<Probing>();
}

void begin_probe() {
  g_probed.store(0, std::memory_order_relaxed);
  g_prober.store(thread_pointer(), std::memory_order_relaxed);
}

unsigned end_probe() {
  g_prober.store(0, std::memory_order_relaxed);
  return g_probed.load(std::memory_order_relaxed);
}

}  // namespace oom_guard
