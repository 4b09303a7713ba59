// Points the slots through which one image maps memory at wrappers that note which ranges it maps,
// for images that keep an allocator of their own where no call of it can be seen.
#pragma once

#include "callsites/elf_image.h"
#include "callsites/image_table.h"
#include "counter/page_ranges.h"

namespace oom_guard {

class MapPatcher {
  enum Fn : unsigned { kMmap, kMmap64, kMunmap, kMremap, kMadvise, kFns };

 public:
  // What an image binds the names to by itself. The loader asks the images that everyone sees
  // first, or after these when the image is deep-bound; prepare() has made sure that those agree.
  class Bindings {
   public:
    // Takes the loader's lock; the hold is a valid one.
    void read(const ImageHold& hold);

   private:
    friend class MapPatcher;
    uintptr_t address_[kFns] = {};
  };

  // Finds libc's functions and publishes them, once per process, before the first slot is written.
  // False when something else in the process stands in for them. Takes the loader's lock.
  bool prepare(const ImageTable& images, PageRanges* ranges);

  // Whether an image imports what an allocator needs that takes its memory from the kernel: a map,
  // an unmap, and either the means to give pages back or no malloc of others. Who maps files needs
  // neither. Reads the import names only.
  static bool may_hide_allocator(const ElfImage& image);

  // Writes the slots of an image that the caller holds, for `owner` of the ranges. All or nothing:
  // without its unmap slots nothing is written, for what is noted would go stale. Returns how many
  // slots lead to the wrappers now.
  unsigned patch(ImageRecord* record, const ElfImage& image, const Bindings& bindings,
                 unsigned owner);

 private:
  static const char* const kNames[kFns];
  struct Symbols;

  bool may_write(Fn fn, const ImportSlot& slot, uintptr_t now, const ElfImage& image,
                 const Bindings& bindings, bool* was_lazy) const;
  bool try_patch(ImageRecord* record, const ElfImage& image, const Bindings& bindings,
                 unsigned owner, unsigned* written);

  uintptr_t original_[kFns] = {};
  uintptr_t executable_stub_[kFns] = {};
  bool prepared_ = false;
};

}  // namespace oom_guard
