#include "allocators/glibc.h"

namespace oom_guard {

void Glibc::find(const ElfImage& libc) {
  mallinfo2_ = reinterpret_cast<MallInfo2 (*)()>(libc.find_defined("mallinfo2"));
  malloc_trim_ = reinterpret_cast<int (*)(size_t)>(libc.find_defined("malloc_trim"));
}

bool Glibc::in_use(uint64_t* bytes) const {
  if (mallinfo2_ == nullptr) return false;
  MallInfo2 info = mallinfo2_();
  *bytes = info.uordblks + info.hblkhd;
  return true;
}

bool Glibc::trim() const {
  if (malloc_trim_ == nullptr) return false;
  malloc_trim_(0);
  return true;
}

}  // namespace oom_guard
