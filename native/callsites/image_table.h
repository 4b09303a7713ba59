// Which images are loaded, and what was done about each. Filled under the loader's lock without
// allocating. Outside it an image's memory may be read only while an ImageHold keeps it loaded;
// what must be known of the others is copied into the records.
#pragma once

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "callsites/family.h"

namespace oom_guard {

enum class SlotReason : uint8_t {
  kForeign,         // bound to another allocator
  kExecutableStub,  // counted through the executable's own slot
  kNull,            // weak and undefined: a feature test
  kUncertainStub,   // lazy, and the image or what it needs brings a malloc of its own
  kNotWrapped,      // the provider of malloc has no such function
  kProtected,       // the page could not be made writable
};

const char* describe(SlotReason reason);

struct SkippedSlot {
  Fn fn;
  SlotReason reason;
};

enum class ImageRole : uint8_t { kExecutable, kLibc, kLoader, kVdso, kSelf, kProvider, kOther };

struct ImageRecord {
  static constexpr size_t kMaxPath = 1024;
  static constexpr size_t kMaxSoname = 64;
  static constexpr unsigned kMaxSkipped = 16;

  uintptr_t base;
  uintptr_t dynamic;
  const ElfW(Phdr) * phdr;
  size_t phdr_count;
  uintptr_t start, end;  // from the first to the last byte of its segments
  char path[kMaxPath];   // "" for the executable
  char soname[kMaxSoname];
  ImageRole role;
  bool brings_allocator;  // defines malloc and its like
  bool global;            // the executable needs it: bound in the global scope

  bool present;  // seen in the scan that is going on
  bool visited;  // patched as far as it can be
  bool pinned;   // held for ever: something in it is called by us
  bool lazy;     // had stubs: the loader, binding late, may overwrite what was written
  bool rechecked;

  // The first slot that was written and what was written: when it reads otherwise, another image
  // has been loaded at the same place.
  uintptr_t* witness;
  uintptr_t witness_value;

  uint32_t patched;
  uint32_t skipped_count;  // may exceed what `skipped` has room for
  SkippedSlot skipped[kMaxSkipped];
  const char* note;

  bool contains(uintptr_t address) const { return address >= start && address < end; }
  void skip(Fn fn, SlotReason reason) {
    if (skipped_count < kMaxSkipped) skipped[skipped_count] = {fn, reason};
    ++skipped_count;
  }
};

// Not thread-safe: the registry's lock protects it.
class ImageTable {
 public:
  static constexpr unsigned kMaxImages = 1024;

  // Whether images came or went since the last refresh(). About 10 ns; takes no lock of ours.
  bool changed() const;
  // Brings the records up to date. New images come in unvisited, gone ones are dropped, and one
  // that was replaced at the same address is new again.
  void refresh();

  unsigned size() const { return size_; }
  ImageRecord& operator[](unsigned i) { return records_[i]; }
  const ImageRecord& operator[](unsigned i) const { return records_[i]; }
  // More images than the table holds, or a path longer than it stores.
  bool overflowed() const { return overflowed_; }

  // Where code or data at this address lives; null when in no image.
  const ImageRecord* find(uintptr_t address) const;

 private:
  static int visit(dl_phdr_info* info, size_t size, void* self);
  void visit(const dl_phdr_info& info);

  ImageRecord records_[kMaxImages];
  unsigned size_ = 0;
  unsigned cursor_ = 0;
  bool overflowed_ = false;
  std::atomic<unsigned long long> adds_{0}, subs_{0};
};

// Keeps an image loaded, and waits until a load that is going on has finished: before that it is
// neither relocated nor protected, and must not be written. Takes the loader's lock, allocates.
class ImageHold {
 public:
  explicit ImageHold(const ImageRecord& record);
  ~ImageHold();
  ImageHold(const ImageHold&) = delete;
  ImageHold& operator=(const ImageHold&) = delete;

  // False when the image is gone, or when its name now means another one.
  bool valid() const { return handle_ != nullptr; }
  // Never let it go.
  void pin() { pinned_ = true; }
  bool pinned() const { return pinned_; }

 private:
  void* handle_ = nullptr;
  bool pinned_ = false;
};

}  // namespace oom_guard
