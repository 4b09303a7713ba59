// glibc's own statistics, and giving free memory back.
#pragma once

#include "callsites/elf_image.h"

namespace oom_guard {

class Glibc {
 public:
  // Finds the functions in libc's image; those that are missing (before 2.33, musl) just fail.
  void find(const ElfImage& libc);

  // uordblks + hblkhd of mallinfo2: chunks in use, headers included, and chunks in thread caches.
  // Walks all free chunks under the arenas' locks: microseconds, or milliseconds with many of them.
  bool in_use(uint64_t* bytes) const;

  // Gives free pages back to the kernel. Milliseconds; holds each arena's lock in turn.
  bool trim() const;

 private:
  struct MallInfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
  };
  MallInfo2 (*mallinfo2_)() = nullptr;
  int (*malloc_trim_)(size_t) = nullptr;
};

}  // namespace oom_guard
