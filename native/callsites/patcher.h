// Points import slots at the counting wrappers.
#pragma once

#include "callsites/provider.h"

namespace oom_guard {

class Patcher {
 public:
  // Chooses the wrappers and learns, with libc's slots only, which functions nest into others.
  // Publishes the originals, so once per process. False when nothing can be counted; see problem().
  bool prepare(ImageTable* images, const Provider& provider, Shards* shards);
  const char* problem() const { return problem_; }
  Sizer sizer() const { return sizer_; }

  // Patches one image that was not visited yet. The caller holds it (ImageHold).
  void patch(const ImageTable& images, ImageRecord* record);

 private:
  enum class Verdict : uint8_t { kWrite, kDone, kIgnore, kSkip };
  struct Context;

  void patch_with(const ImageTable& images, ImageRecord* record, const ElfImage& image);
  Verdict judge(Context* context, Fn fn, const ImportSlot& slot, uintptr_t* value,
                SlotReason* reason);
  bool stub_is_safe(Context* context);
  void learn_nesting(ImageTable* images);
  bool booked_inside(Fn fn) const;
  bool glibc_header_agrees() const;

  const Provider* provider_ = nullptr;
  Sizer sizer_ = Sizer::kUsableSize;
  AnyFn target_[kFnCount] = {};  // what slots are to hold; null: the original
  AnyFn executable_free_ = nullptr;
  bool probing_ = false;
  const char* problem_ = "";
};

}  // namespace oom_guard
