#include "callsites/slot_writer.h"

#include <sys/mman.h>

#include <cerrno>

#include "os/os.h"

namespace oom_guard {

SlotWriter::SlotWriter(const ElfImage& image) : image_(image), page_size_(os::page_size()) {
  image.relro(page_size_, &relro_first_, &relro_last_);
}

SlotWriter::~SlotWriter() {
  restore();
}

bool SlotWriter::write(uintptr_t* slot, uintptr_t judged, uintptr_t value) {
  if (!image_.writable(reinterpret_cast<uintptr_t>(slot))) return false;
  uintptr_t page = reinterpret_cast<uintptr_t>(slot) & ~(page_size_ - 1);
  // The loader leaves everything outside RELRO writable, the last partly covered page too.
  bool read_only = page >= relro_first_ && page < relro_last_;
  if (read_only && page != open_page_) {
    if (page == refused_page_) return false;
    restore();
    int saved = errno;
    if (mprotect(reinterpret_cast<void*>(page), page_size_, PROT_READ | PROT_WRITE) != 0) {
      errno = saved;
      refused_page_ = page;
      return false;
    }
    open_page_ = page;
  }
  return __atomic_compare_exchange_n(slot, &judged, value, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED);
}

void SlotWriter::restore() {
  if (open_page_ == 0) return;
  int saved = errno;
  mprotect(reinterpret_cast<void*>(open_page_), page_size_, PROT_READ);
  errno = saved;
  open_page_ = 0;
}

}  // namespace oom_guard
