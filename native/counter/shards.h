// The counter: where bytes handed out and given back are added up and read.
// 64 padded shards of monotonic totals; a thread always books into the same one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "counter/thread_number.h"

// One instruction on memory is what the owner of a shard needs; the thread sanitizer sees none of
// it.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define OOM_GUARD_SHARDS_IN_ASM
#endif

namespace oom_guard {

constexpr unsigned kShardCount = 64;

constexpr unsigned shard_of(uint32_t thread) {
  return thread % kShardCount;
}

// Two parts, each on a cache line of its own: one that only the thread that owns the shard writes,
// and one for all others that happen to fall on it. A locked addition costs 5 to 6 ns on the
// machines we measured, two of them more than all else in a wrapper; an owner needs none. The size
// of 128 bytes keeps the adjacent-line prefetcher of x86 and the 128-byte lines of some arm64
// apart.
struct alignas(128) Shard {
  std::atomic<uint32_t> owner{0};  // thread number; threads that end do not give it back
  std::atomic<uint64_t> allocated{0};
  std::atomic<uint64_t> freed{0};

  alignas(64) std::atomic<uint64_t> shared_allocated{0};
  std::atomic<uint64_t> shared_freed{0};
  std::atomic<uint32_t> shared_bookings{0};
};

struct Totals {
  uint64_t allocated;
  uint64_t freed;
};

// One allocator's shards. Trivially constructible in zeroed memory; never destroyed.
class Shards {
 public:
  void book_allocated(size_t bytes) noexcept { book<true, false>(bytes, 0); }
  void book_freed(size_t bytes) noexcept { book<false, true>(0, bytes); }
  // False, and nothing is booked, when the calling thread does not own its shard (yet).
  bool book_freed_as_owner(size_t bytes) noexcept { return book_as_owner<false, true>(0, bytes); }
  void book_resized(size_t old_bytes, size_t new_bytes) noexcept {
    book<true, true>(new_bytes, old_bytes);
  }

  // Frees are summed first: what is in flight meanwhile can only make the difference too large,
  // never too small, and a guard must not be told of room that is not there.
  Totals sum() const noexcept {
    Totals totals{0, 0};
    uint64_t used = used_.load(std::memory_order_acquire);
    for (uint64_t left = used; left != 0; left &= left - 1) {
      const Shard& shard = shards_[__builtin_ctzll(left)];
      totals.freed += shard.freed.load(kRelaxed) + shard.shared_freed.load(kRelaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    used |= used_.load(kRelaxed);
    for (uint64_t left = used; left != 0; left &= left - 1) {
      const Shard& shard = shards_[__builtin_ctzll(left)];
      totals.allocated += shard.allocated.load(kRelaxed) + shard.shared_allocated.load(kRelaxed);
    }
    return totals;
  }

  Totals read(unsigned index) const noexcept {
    const Shard& shard = shards_[index];
    uint64_t freed = shard.freed.load(kRelaxed) + shard.shared_freed.load(kRelaxed);
    return {shard.allocated.load(kRelaxed) + shard.shared_allocated.load(kRelaxed), freed};
  }

  // The number of the thread that owns a shard; 0 while nobody does.
  uint32_t owner(unsigned index) const noexcept { return shards_[index].owner.load(kRelaxed); }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  template <bool kAllocated, bool kFreed>
  __attribute__((always_inline)) void book(size_t allocated, size_t freed) noexcept {
    if (!book_as_owner<kAllocated, kFreed>(allocated, freed)) {
      book_unowned(thread_number(), allocated, freed);
    }
  }

  template <bool kAllocated, bool kFreed>
  __attribute__((always_inline)) bool book_as_owner(size_t allocated, size_t freed) noexcept {
    const uint32_t thread = thread_number();
    Shard& shard = shards_[shard_of(thread)];
#if defined(OOM_GUARD_SHARDS_IN_ASM)
    // What the branch below says, but compared in memory: the compiler loads an atomic first.
    __asm__ goto("cmpl %1, %0\n\tjne %l[unowned]"
                 :
                 : "m"(shard.owner), "r"(thread)
                 : "cc"
                 : unowned);
#else
    if (__builtin_expect(shard.owner.load(kRelaxed) != thread, 0)) goto unowned;
#endif
    if (kAllocated) add_as_owner(&shard.allocated, allocated);
    if (kFreed) add_as_owner(&shard.freed, freed);
    return true;

  unowned:
    return false;
  }

  // One instruction, so that a signal handler that allocates cannot come in between; not locked, so
  // that no other thread may write there.
  static void add_as_owner(std::atomic<uint64_t>* total, uint64_t bytes) noexcept {
#if defined(OOM_GUARD_SHARDS_IN_ASM)
    __asm__("addq %1, %0" : "+m"(*total) : "er"(bytes) : "cc");
#else
    total->fetch_add(bytes, kRelaxed);
#endif
  }

  // Takes the shard when nobody has it, or a thread that has ended; books into its shared part when
  // somebody else has it.
  __attribute__((noinline, cold)) void book_unowned(uint32_t thread, size_t allocated,
                                                    size_t freed) noexcept {
    const unsigned index = shard_of(thread);
    Shard& shard = shards_[index];
    const uint64_t bit = uint64_t{1} << index;
    if ((used_.load(kRelaxed) & bit) == 0) used_.fetch_or(bit, std::memory_order_release);
    if (g_thread_numbers_are_unique && thread != 0 && take(&shard, thread)) {
      book<true, true>(allocated, freed);
      return;
    }
    shard.shared_allocated.fetch_add(allocated, kRelaxed);
    shard.shared_freed.fetch_add(freed, kRelaxed);
  }

  // Whether its owner still lives is asked now and then only. That its number belongs to a new
  // thread by the time of the exchange would take the kernel to have given out all other numbers
  // meanwhile.
  static bool take(Shard* shard, uint32_t thread) noexcept {
    constexpr uint32_t kBookingsPerLook = 256;
    uint32_t owner = shard->owner.load(kRelaxed);
    if (owner != 0) {
      const uint32_t bookings = shard->shared_bookings.fetch_add(1, kRelaxed);
      if (bookings % kBookingsPerLook != 0 || thread_lives(owner)) return false;
    }
    return shard->owner.compare_exchange_strong(owner, thread, kRelaxed);
  }

  Shard shards_[kShardCount];
  std::atomic<uint64_t> used_{0};  // a bit for each shard that was ever booked into
};

}  // namespace oom_guard
