#include "allocators/residency.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/os.h"

namespace oom_guard {
namespace {

constexpr size_t kPagesAtATime = 16384;

size_t count_resident(const unsigned char* pages, size_t count) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  size_t resident = 0, i = 0;
  while (i + 8 <= count) {
    // Bytes of ones are added up side by side; they overflow after 255 rounds.
    uint64_t sums = 0;
    for (unsigned round = 0; round < 255 && i + 8 <= count; ++round, i += 8) {
      uint64_t eight;
      memcpy(&eight, pages + i, sizeof(eight));
      sums += eight & kOnes;
    }
    for (; sums != 0; sums >>= 8) resident += sums & 0xff;
  }
  for (; i < count; ++i) resident += pages[i] & 1;
  return resident;
}

// A range that was unmapped meanwhile, wholly or in part, makes mincore fail: its halves are asked.
size_t resident_pages(uintptr_t from, size_t pages, size_t page_size, unsigned char* answer,
                      bool* all_mapped) {
  if (mincore(reinterpret_cast<void*>(from), pages * page_size, answer) == 0) {
    return count_resident(answer, pages);
  }
  if (errno == ENOMEM) *all_mapped = false;
  if (errno != ENOMEM || pages < 16) return 0;
  size_t half = pages / 2;
  return resident_pages(from, half, page_size, answer, all_mapped) +
         resident_pages(from + half * page_size, pages - half, page_size, answer, all_mapped);
}

// Where ranges lie and nothing is mapped, or where two lie over each other: what is put back at the
// moment at which its owner notes it stands there twice.
class Gaps {
 public:
  // `ranges` in the order of their addresses.
  Gaps(const PageRanges::Range* ranges, unsigned count) : ranges_(ranges), count_(count) {
    uintptr_t covered = 0;
    for (unsigned i = 0; i < count; ++i) {
      add(ranges[i].from, std::min(ranges[i].to, covered));
      covered = std::max(covered, ranges[i].to);
    }
    os::each_mapping(
        [](void* self, const os::Mapping& mapping) {
          static_cast<Gaps*>(self)->between(mapping.from);
          static_cast<Gaps*>(self)->end_ = std::max(static_cast<Gaps*>(self)->end_, mapping.to);
        },
        this);
    between(UINTPTR_MAX);
  }

  // What is mapped by the time that it was taken out was mapped meanwhile, perhaps by an allocator
  // that had already noted it.
  void take_out(PageRanges* ranges) {
    ranges_to_cut_ = ranges;
    for (unsigned i = 0; i < size_; ++i) {
      ranges->forget(gap_[i].from, gap_[i].to - gap_[i].from, &gap_[i].removed);
    }
    os::each_mapping(
        [](void* self, const os::Mapping& mapping) {
          auto* gaps = static_cast<Gaps*>(self);
          for (unsigned i = 0; i < gaps->size_; ++i) {
            gaps->ranges_to_cut_->restore_within(gaps->gap_[i].removed, mapping.from, mapping.to);
          }
        },
        this);
  }
  bool any() const { return size_ != 0; }

 private:
  // Nothing is mapped from end_ to `next`.
  void between(uintptr_t next) {
    while (first_ < count_ && ranges_[first_].to <= end_) ++first_;
    for (unsigned i = first_; i < count_ && ranges_[i].from < next; ++i) {
      add(std::max(ranges_[i].from, end_), std::min(ranges_[i].to, next));
    }
  }
  void add(uintptr_t from, uintptr_t to) {
    if (from < to && size_ < kRoom) gap_[size_++] = {from, to, {}};
  }

  struct Gap {
    uintptr_t from, to;
    PageRanges::Removed removed;
  };
  static constexpr unsigned kRoom = 64;  // more of them are found the next time

  const PageRanges::Range* ranges_;
  unsigned count_, first_ = 0;
  uintptr_t end_ = 0;
  PageRanges* ranges_to_cut_ = nullptr;
  Gap gap_[kRoom];
  unsigned size_ = 0;
};

}  // namespace

bool read_resident_bytes(const PageRanges& ranges, PageRanges::Range* scratch,
                         uint64_t (&bytes)[PageRanges::kMaxOwners]) {
  unsigned char answer[kPagesAtATime];
  int saved = errno;
  size_t page_size = os::page_size();
  for (uint64_t& owned : bytes) owned = 0;
  bool all_mapped = true;
  unsigned count = ranges.snapshot(scratch);
  for (unsigned i = 0; i < count; ++i) {
    const PageRanges::Range& range = scratch[i];
    for (uintptr_t at = range.from; at < range.to;) {
      size_t pages = (range.to - at) / page_size;
      if (pages > kPagesAtATime) pages = kPagesAtATime;
      if (pages == 0) break;
      bytes[range.owner] += resident_pages(at, pages, page_size, answer, &all_mapped) * page_size;
      at += pages * page_size;
    }
  }
  errno = saved;
  return all_mapped;
}

bool drop_unmapped(PageRanges* ranges, PageRanges::Range* scratch) {
  // What was unmapped in the usual way since it was looked at is not in the table any more.
  unsigned count = ranges->snapshot(scratch);
  std::sort(scratch, scratch + count,
            [](const PageRanges::Range& a, const PageRanges::Range& b) { return a.from < b.from; });
  Gaps gaps(scratch, count);
  if (gaps.any()) gaps.take_out(ranges);
  return gaps.any();
}

bool residency_is_readable() {
  int saved = errno;
  size_t page_size = os::page_size();
  constexpr size_t kPages = 8;
  void* memory =
      mmap(nullptr, kPages * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  // A huge page would make all of them resident.
  madvise(memory, kPages * page_size, MADV_NOHUGEPAGE);
  static_cast<volatile char*>(memory)[3 * page_size] = 1;
  unsigned char answer[kPages] = {};
  bool truthful = mincore(memory, kPages * page_size, answer) == 0 &&
                  count_resident(answer, kPages) == 1 && (answer[3] & 1) != 0;
  munmap(memory, kPages * page_size);
  errno = saved;
  return truthful;
}

}  // namespace oom_guard
