#include "counter/page_ranges.h"

namespace oom_guard {
namespace {

// A split is a handful of instructions; whoever has not finished after this many looks is not
// running.
constexpr unsigned kPatience = 4096;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

}  // namespace

PageRanges::Word PageRanges::pack(const Range& range) noexcept {
  Word start = range.from >> kUnitBits, length = (range.to - range.from) >> kUnitBits;
  return start << (kLengthBits + kOwnerBits) | length << kOwnerBits | range.owner;
}

PageRanges::Range PageRanges::unpack(Word word) noexcept {
  uintptr_t from = (word >> (kLengthBits + kOwnerBits)) << kUnitBits;
  uintptr_t length = ((word >> kOwnerBits) & ((Word{1} << kLengthBits) - 1)) << kUnitBits;
  return {from, from + length, static_cast<unsigned>(word & (kMaxOwners - 1))};
}

bool PageRanges::page_range(uintptr_t address, size_t length, Range* out) const noexcept {
  uintptr_t mask = page_size_ - 1;
  if (length == 0 || (address & mask) != 0 || address + length < address) return false;
  *out = {address, (address + length + mask) & ~mask, 0};
  return out->to > address;
}

void PageRanges::record(unsigned owner, uintptr_t address, size_t length) noexcept {
  Range range;
  if (!page_range(address, length, &range)) return;
  // What was unmapped behind our back may still stand there.
  forget(address, length);
  range.owner = owner;
  insert(range);
}

void PageRanges::insert(Range range) noexcept {
  constexpr uintptr_t kLongest = ((uintptr_t{1} << kLengthBits) - 1) << kUnitBits;
  while (range.from < range.to) {
    Range piece = range;
    if (piece.to - piece.from > kLongest) piece.to = piece.from + kLongest;
    bool fits = (piece.to - 1) >> (kStartBits + kUnitBits) == 0;
    if (!fits || !insert_piece(pack(piece))) {
      lost_[range.owner].fetch_add(piece.to - piece.from, std::memory_order_relaxed);
    }
    range.from = piece.to;
  }
}

bool PageRanges::insert_piece(Word word) noexcept {
  for (unsigned i = 0; i < kCapacity; ++i) {
    if (slots_[i].load(std::memory_order_relaxed) != 0) continue;
    // First, so that whoever can know of the range also looks at its slot.
    unsigned used = used_.load(std::memory_order_relaxed);
    while (used <= i && !used_.compare_exchange_weak(used, i + 1, std::memory_order_release,
                                                     std::memory_order_relaxed)) {
    }
    Word empty = 0;
    if (slots_[i].compare_exchange_strong(empty, word, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void PageRanges::forget(uintptr_t address, size_t length, Removed* removed) noexcept {
  Range hole;
  if (!page_range(address, length, &hole)) return;
  for (;;) {
    uint32_t before = settled_splits();
    unsigned used = used_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < used; ++i) {
      Word word = slots_[i].load(std::memory_order_acquire);
      if (word == 0) continue;
      Range range = unpack(word);
      if (range.to > hole.from && range.from < hole.to) cut(&slots_[i], hole, removed);
    }
    // A split moves a part of a range into another slot, perhaps one that we had passed already.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (splits_.load(std::memory_order_relaxed) == before) return;
  }
}

void PageRanges::cut(std::atomic<Word>* slot, const Range& hole, Removed* removed) noexcept {
  Word word = slot->load(std::memory_order_acquire);
  while (word != 0) {
    Range range = unpack(word);
    if (range.to <= hole.from || range.from >= hole.to) return;
    Range left = range, right = range, middle = range;
    left.to = middle.from = hole.from > range.from ? hole.from : range.from;
    right.from = middle.to = hole.to < range.to ? hole.to : range.to;
    bool has_left = left.to > left.from, has_right = right.to > right.from;
    bool done;
    if (has_left && has_right) {
      uint32_t mine = begin_split();
      done = slot->compare_exchange_strong(word, pack(left), std::memory_order_acq_rel,
                                           std::memory_order_acquire);
      if (done) insert(right);
      end_split(mine);
    } else {
      Word rest = has_left ? pack(left) : has_right ? pack(right) : 0;
      done = slot->compare_exchange_strong(word, rest, std::memory_order_acq_rel,
                                           std::memory_order_acquire);
    }
    if (!done) continue;
    if (removed != nullptr) {
      if (removed->count_ < Removed::kRoom) {
        removed->ranges_[removed->count_++] = middle;
      } else {
        removed->unkept_bytes_ += middle.to - middle.from;
      }
    }
    return;
  }
}

void PageRanges::restore(const Removed& removed) noexcept {
  for (unsigned i = 0; i < removed.count_; ++i) insert(removed.ranges_[i]);
  if (removed.unkept_bytes_ != 0) {
    lost_[removed.ranges_[removed.count_ - 1].owner].fetch_add(removed.unkept_bytes_,
                                                               std::memory_order_relaxed);
  }
}

void PageRanges::restore_within(const Removed& removed, uintptr_t from, uintptr_t to) noexcept {
  for (unsigned i = 0; i < removed.count_; ++i) {
    Range range = removed.ranges_[i];
    if (range.from < from) range.from = from;
    if (range.to > to) range.to = to;
    if (range.from < range.to && !covers(range.from)) {
      record(range.owner, range.from, range.to - range.from);
    }
  }
}

uint32_t PageRanges::settled_splits() const noexcept {
  uint32_t splits = splits_.load(std::memory_order_acquire);
  for (unsigned i = 0; (splits & 1) != 0 && i < kPatience; ++i) {
    relax();
    splits = splits_.load(std::memory_order_acquire);
  }
  return splits;
}

uint32_t PageRanges::begin_split() noexcept {
  for (;;) {
    uint32_t splits = settled_splits();
    // Still odd: the thread that splits is not running, and its turn is taken over.
    uint32_t mine = (splits & 1) != 0 ? splits + 2 : splits + 1;
    if (splits_.compare_exchange_weak(splits, mine, std::memory_order_acq_rel)) return mine;
  }
}

void PageRanges::end_split(uint32_t mine) noexcept {
  splits_.compare_exchange_strong(mine, mine + 1, std::memory_order_acq_rel);
}

unsigned PageRanges::snapshot(Range* out) const noexcept {
  constexpr unsigned kTries = 8;
  unsigned count = 0;
  for (unsigned attempt = 0; attempt < kTries; ++attempt) {
    uint32_t before = settled_splits();
    unsigned used = used_.load(std::memory_order_acquire);
    count = 0;
    for (unsigned i = 0; i < used; ++i) {
      Word word = slots_[i].load(std::memory_order_acquire);
      if (word != 0) out[count++] = unpack(word);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (splits_.load(std::memory_order_relaxed) == before) break;
  }
  return count;
}

bool PageRanges::covers(uintptr_t address) const noexcept {
  unsigned used = used_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < used; ++i) {
    Word word = slots_[i].load(std::memory_order_acquire);
    if (word == 0) continue;
    Range range = unpack(word);
    if (address >= range.from && address < range.to) return true;
  }
  return false;
}

}  // namespace oom_guard
