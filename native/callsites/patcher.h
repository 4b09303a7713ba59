// Points import slots at the counting wrappers.
#pragma once

#include "callsites/provider.h"

namespace oom_guard {

class SlotWriter;

// What patched slots lead to. All but the first are for benchmarks: the books are wrong afterwards.
enum class SlotTarget : uint8_t { kCounting, kOriginal, kCountingByUsableSize };

// One heap's slots: those of the process malloc in every image, or those through which an allocator
// inside an image calls itself.
class Patcher {
 public:
  // Chooses the wrappers and learns, with libc's slots only, which functions nest into others.
  // Publishes the originals, so once per process. False when nothing can be counted; see problem().
  bool prepare(ImageTable* images, const Provider& provider);
  // The same for an allocator inside an image, whose functions are named with a prefix. `heap` is
  // not 0. False when the image lacks a function that is needed.
  bool prepare_embedded(unsigned heap, const ElfImage& image, const char* prefix);

  const char* problem() const { return problem_; }

  // Patches one image that is to be visited. The caller holds it (ImageHold). `before` is what the
  // record said until then.
  void patch(const ImageTable& images, ImageRecord* record, const ImageRecord& before);
  // The same for an embedded heap and its own image: its slots are not those that the record tells
  // of, but are watched with them. Returns how many lead to the wrappers.
  unsigned patch_embedded(const ImageTable& images, ImageRecord* record);

  // What slots patched from now on lead to. The caller visits all images again.
  void retarget(SlotTarget target);

 private:
  enum class Verdict : uint8_t { kWrite, kDone, kIgnore, kSkip };
  struct Context;

  void choose_targets();
  void patch_with(const ImageTable& images, ImageRecord* record, const ImageRecord& before,
                  const ElfImage& image);
  Verdict patch_slot(Context* context, Fn fn, const ImportSlot& slot, SlotWriter* writer,
                     SlotReason* reason);
  // `now` is what the slot holds; `value` becomes what it is to hold.
  Verdict judge(Context* context, Fn fn, const ImportSlot& slot, uintptr_t now, uintptr_t* value,
                SlotReason* reason);
  bool is_ours(Fn fn, uintptr_t value) const;
  bool stub_is_safe(Context* context, const ElfW(Sym) & symbol);
  void learn_nesting(ImageTable* images);
  bool glibc_header_agrees() const;
  uintptr_t original(Fn fn) const { return reinterpret_cast<uintptr_t>(original_[index_of(fn)]); }

  unsigned heap_ = 0;
  char prefix_[32] = "";
  AnyFn original_[kFnCount] = {};
  uintptr_t executable_stub_[kFnCount] = {};
  UsableSizeFn usable_size_ = nullptr;
  Sizer sizer_ = Sizer::kUsableSize;
  bool nested_[kFnCount] = {};   // booked inside another function: not to be wrapped
  AnyFn target_[kFnCount] = {};  // what slots are to hold; null: the original
  AnyFn executable_free_ = nullptr;
  uintptr_t loader_start_ = 0, loader_end_ = 0;  // set where ld.so's frees are not to be booked
  bool probing_ = false;
  const char* problem_ = "";
};

}  // namespace oom_guard
