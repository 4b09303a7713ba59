// Writes slots of one image, with the pages' protection lifted for as long as it takes.
#pragma once

#include "callsites/elf_image.h"

namespace oom_guard {

class SlotWriter {
 public:
  explicit SlotWriter(const ElfImage& image);

  // Other threads see the old function or the new one, both valid. A slot may be a variable that a
  // program assigns to, so it is written only if it still holds what was judged. False, with the
  // slot as it was, when it does not, or when its page cannot be made writable.
  bool write(uintptr_t* slot, uintptr_t judged, uintptr_t value);
  ~SlotWriter();
  SlotWriter(const SlotWriter&) = delete;
  SlotWriter& operator=(const SlotWriter&) = delete;

 private:
  void restore();

  const ElfImage& image_;
  size_t page_size_;
  uintptr_t relro_first_, relro_last_;
  uintptr_t open_page_ = 0;  // the page that is writable at the moment
  uintptr_t refused_page_ = 0;
};

}  // namespace oom_guard
