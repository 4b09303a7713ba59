// The counter: where bytes handed out and given back are added up and read.
// 64 padded shards of monotonic totals; a thread always hits the same one. Includes nothing of ours
// but the number of a thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "counter/thread_number.h"

namespace oom_guard {

constexpr unsigned kShardCount = 1u << kThreadNumberBits;

// 128 bytes: the adjacent-line prefetcher of x86 pairs two lines of 64, and some arm64 lines are
// 128.
struct alignas(128) Shard {
  std::atomic<uint64_t> allocated{0};
  std::atomic<uint64_t> freed{0};
};

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
  Shard& mine() noexcept { return shards_[thread_number()]; }

  Shard shards_[kShardCount];
};

}  // namespace oom_guard
