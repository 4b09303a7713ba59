#include "allocators/residency.h"

#include <sys/mman.h>

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
size_t resident_pages(uintptr_t from, size_t pages, size_t page_size, unsigned char* answer) {
  if (mincore(reinterpret_cast<void*>(from), pages * page_size, answer) == 0) {
    return count_resident(answer, pages);
  }
  if (errno != ENOMEM || pages < 16) return 0;
  size_t half = pages / 2;
  return resident_pages(from, half, page_size, answer) +
         resident_pages(from + half * page_size, pages - half, page_size, answer);
}

}  // namespace

void read_resident_bytes(const PageRanges& ranges, PageRanges::Range* scratch,
                         uint64_t (&bytes)[PageRanges::kMaxOwners]) {
  unsigned char answer[kPagesAtATime];
  int saved = errno;
  size_t page_size = os::page_size();
  for (uint64_t& owned : bytes) owned = 0;
  unsigned count = ranges.snapshot(scratch);
  for (unsigned i = 0; i < count; ++i) {
    const PageRanges::Range& range = scratch[i];
    for (uintptr_t at = range.from; at < range.to;) {
      size_t pages = (range.to - at) / page_size;
      if (pages > kPagesAtATime) pages = kPagesAtATime;
      if (pages == 0) break;
      bytes[range.owner] += resident_pages(at, pages, page_size, answer) * page_size;
      at += pages * page_size;
    }
  }
  errno = saved;
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
