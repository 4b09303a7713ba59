// The counter: where bytes handed out and given back are added up and read.
// 64 padded shards of monotonic totals; a thread always hits the same one. Includes nothing of ours.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace oom_guard {

constexpr unsigned kShardBits = 6;
constexpr unsigned kShardCount = 1u << kShardBits;

// 128 bytes: the adjacent-line prefetcher of x86 pairs two lines of 64, and some arm64 lines are 128.
struct alignas(128) Shard {
  std::atomic<uint64_t> allocated{0};
  std::atomic<uint64_t> freed{0};
};

// The thread pointer, without touching thread-local storage: a TLS access from a dlopened library
// may call into the loader, which may allocate, which would come back here.
inline uintptr_t thread_pointer() noexcept {
#if defined(__x86_64__)
  uintptr_t tp;
  __asm__("mov %%fs:0, %0" : "=r"(tp));
  return tp;
#elif defined(__aarch64__)
  uintptr_t tp;
  __asm__("mrs %0, tpidr_el0" : "=r"(tp));
  return tp;
#else
#error "no thread pointer for this architecture"
#endif
}

// Multiplicative hash of the page that the thread pointer lies in. The stacks of threads lie at equal
// distances, mostly powers of two with or without a guard page, so a multiplier is good when the
// multiples of such a distance spread. This one was searched for: for every power of two from 64 KiB
// to 128 MiB, give or take a few pages or a huge page, 20 threads get 20 shards; the golden ratio
// (0x9E37...) gets as few as 4.
inline unsigned shard_index(uintptr_t tp) noexcept {
  return static_cast<unsigned>((static_cast<uint64_t>(tp >> 12) * 0xE4C415E556047435ull) >>
                               (64 - kShardBits));
}

struct Totals {
  uint64_t allocated;
  uint64_t freed;
};

// One allocator's shards. Trivially constructible in zeroed memory; never destroyed.
class Shards {
 public:
  void book_allocated(size_t bytes) noexcept { mine().allocated.fetch_add(bytes, kRelaxed); }
  void book_freed(size_t bytes) noexcept { mine().freed.fetch_add(bytes, kRelaxed); }
  void book_resized(size_t old_bytes, size_t new_bytes) noexcept {
    Shard& shard = mine();
    shard.allocated.fetch_add(new_bytes, kRelaxed);
    shard.freed.fetch_add(old_bytes, kRelaxed);
  }

  // Frees are summed first: what is in flight meanwhile can only make the difference too large,
  // never too small, and a guard must not be told of room that is not there.
  Totals sum() const noexcept {
    Totals totals{0, 0};
    for (const Shard& shard : shards_) totals.freed += shard.freed.load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    for (const Shard& shard : shards_) totals.allocated += shard.allocated.load(kRelaxed);
    return totals;
  }

  Totals read(unsigned index) const noexcept {
    const Shard& shard = shards_[index];
    uint64_t freed = shard.freed.load(kRelaxed);
    return {shard.allocated.load(kRelaxed), freed};
  }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  Shard& mine() noexcept { return shards_[shard_index(thread_pointer())]; }

  Shard shards_[kShardCount];
};

}  // namespace oom_guard
