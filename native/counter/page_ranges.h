// Which ranges of addresses the allocators hidden inside images have mapped: a fixed table that
// wrappers of mmap and munmap write from any thread, and that the sampling thread reads.
//
// One 64-bit word holds a whole range, so that every change but one is a single compare-and-swap.
// The exception is a hole in the middle of a range, which takes a second word; readers and others
// that forget notice such a split by a counter and look again. Nobody waits for a thread that does
// not come back (a signal handler above it, a fork without it): after a bounded number of tries its
// turn is taken over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace oom_guard {

class PageRanges {
 public:
  static constexpr unsigned kMaxOwners = 32;
  static constexpr unsigned kCapacity = 4096;

  struct Range {
    uintptr_t from, to;
    unsigned owner;
  };

  // What forget() took out, to be put back when the kernel then refuses the call.
  class Removed {
   public:
    bool any() const { return count_ != 0 || unkept_bytes_ != 0; }

   private:
    friend class PageRanges;
    static constexpr unsigned kRoom = 8;
    Range ranges_[kRoom];
    unsigned count_ = 0;
    uint64_t unkept_bytes_ =
        0;  // of more ranges than there is room for; all the last one's owner's
  };

  // Before the first use. A length is rounded up to whole pages, as the kernel does.
  void set_page_size(size_t bytes) { page_size_ = bytes; }

  // Right after the kernel has mapped it.
  void record(unsigned owner, uintptr_t address, size_t length) noexcept;
  // Right BEFORE the kernel unmaps it: afterwards another thread may be given the same addresses.
  // Any part of any recorded ranges, whoever recorded them.
  void forget(uintptr_t address, size_t length, Removed* removed = nullptr) noexcept;
  void restore(const Removed& removed) noexcept;
  // The same for what of it lies in [from, to) and has not been recorded anew meanwhile.
  void restore_within(const Removed& removed, uintptr_t from, uintptr_t to) noexcept;

  // Copies all ranges, disjoint and as they stood at one moment as far as splits are concerned.
  // Returns how many; `out` has room for kCapacity.
  unsigned snapshot(Range* out) const noexcept;
  bool covers(uintptr_t address) const noexcept;

  // Bytes of ranges that found no place in the table, ever.
  uint64_t lost_bytes(unsigned owner) const noexcept {
    return lost_[owner].load(std::memory_order_relaxed);
  }

 private:
  // start (36 bits of 4 KiB units) | length (23 bits of units, never 0) | owner (5 bits). 0: empty.
  using Word = uint64_t;
  static constexpr unsigned kUnitBits = 12, kLengthBits = 23, kOwnerBits = 5, kStartBits = 36;
  static_assert(kStartBits + kLengthBits + kOwnerBits == 64, "");
  static_assert(kMaxOwners == 1u << kOwnerBits, "");

  static Word pack(const Range& range) noexcept;
  static Range unpack(Word word) noexcept;
  bool page_range(uintptr_t address, size_t length, Range* out) const noexcept;
  void insert(Range range) noexcept;
  bool insert_piece(Word word) noexcept;
  void cut(std::atomic<Word>* slot, const Range& hole, Removed* removed) noexcept;
  uint32_t settled_splits() const noexcept;
  uint32_t begin_split() noexcept;
  void end_split(uint32_t mine) noexcept;

  size_t page_size_ = 4096;
  std::atomic<uint32_t> splits_{0};  // odd while one is going on
  std::atomic<unsigned> used_{0};    // no slot from here on was ever used
  std::atomic<uint64_t> lost_[kMaxOwners] = {};
  std::atomic<Word> slots_[kCapacity] = {};
};

}  // namespace oom_guard
