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
  kOverwritten,     // led to the wrapper until something else wrote there
};

const char* describe(SlotReason reason);

struct SkippedSlot {
  Fn fn;
  SlotReason reason;
};

enum class ImageRole : uint8_t { kExecutable, kLibc, kLoader, kVdso, kSelf, kProvider, kOther };

// A slot that was written, and what it is to hold.
struct WrittenSlot {
  uintptr_t* address;
  uintptr_t value;
};

struct ImageRecord {
  static constexpr size_t kMaxPath = 1024;
  static constexpr size_t kMaxSoname = 64;
  static constexpr unsigned kMaxSkipped = 16;
  static constexpr unsigned kMaxWritten = 64;  // no module has half as many

  uint64_t serial;  // tells records apart; grows in the order in which images were first seen
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
  bool unheld;  // it could not be held: nobody needs to hurry until the table is next brought up to
                // date
  bool pinned;  // held for ever: something in it is called by us
  bool lazy;    // had stubs: the loader, binding late, may overwrite what was written

  // When one reads otherwise, another image has been loaded at the same place, or the loader's late
  // binding or another tool has written there.
  uint32_t written_count;
  WrittenSlot written[kMaxWritten];

  uint32_t patched;
  uint32_t skipped_count;  // may exceed what `skipped` has room for
  SkippedSlot skipped[kMaxSkipped];
  const char* note;

  bool contains(uintptr_t address) const { return address >= start && address < end; }
  // The kernel's image and the loader have slots that are none of our business.
  bool is_left_alone() const { return role == ImageRole::kVdso || role == ImageRole::kLoader; }
  // Slots beyond kMaxWritten are not looked at again.
  void note_written(uintptr_t* address, uintptr_t value) {
    if (written_count < kMaxWritten) written[written_count++] = {address, value};
  }
  bool was_written(const uintptr_t* address) const {
    for (unsigned i = 0; i < written_count; ++i) {
      if (written[i].address == address) return true;
    }
    return false;
  }
  bool skipped_for(Fn fn, SlotReason reason) const {
    for (unsigned i = 0; i < skipped_count && i < kMaxSkipped; ++i) {
      if (skipped[i].fn == fn && skipped[i].reason == reason) return true;
    }
    return false;
  }
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
  // Brings the records up to date: new images come in unvisited, gone ones are dropped, and those
  // of which a written slot reads otherwise are to be visited again. Returns whether anything
  // changed. Some 50 microseconds with a hundred images; takes the loader's lock on its list, which
  // is never held while an image's constructors run.
  bool refresh();

  unsigned size() const { return size_; }
  ImageRecord& operator[](unsigned i) { return records_[i]; }
  const ImageRecord& operator[](unsigned i) const { return records_[i]; }
  // Loaded images for which there is no room: more than the table holds, or a path longer than it
  // stores.
  unsigned left_out() const { return left_out_; }

  // The first record that is to be visited and whose serial is higher; null when there is none.
  const ImageRecord* next_unvisited(uint64_t after) const;
  // Whether there is one that was not tried in vain already.
  bool any_to_visit() const;
  ImageRecord* find_serial(uint64_t serial);

  // Where code or data at this address lives; null when in no image.
  const ImageRecord* find(uintptr_t address) const;

 private:
  static int visit(dl_phdr_info* info, size_t size, void* self);
  void visit(const dl_phdr_info& info);
  unsigned first_after(uint64_t serial) const;

  ImageRecord records_[kMaxImages];
  unsigned size_ = 0;
  unsigned cursor_ = 0;
  unsigned left_out_ = 0;
  uint64_t last_serial_ = 0;
  bool refreshed_differs_ = false;
  std::atomic<unsigned long long> adds_{0}, subs_{0};
};

// Keeps an image loaded, and waits until a load that is going on has finished: before that it is
// neither relocated nor protected, and must not be written. Takes the loader's lock, for as long as
// the constructors of whatever is being loaded run, and allocates. When the program has let go of
// the image meanwhile, its destructors run where the hold ends: no lock of ours may be held there.
class ImageHold {
 public:
  explicit ImageHold(const ImageRecord& record);
  ~ImageHold();
  ImageHold(const ImageHold&) = delete;
  ImageHold& operator=(const ImageHold&) = delete;

  // False when the image is gone, or when its name now means another one.
  bool valid() const { return handle_ != nullptr; }
  // What the image binds a name to by itself; 0 when to nothing. Takes the loader's lock.
  uintptr_t resolve(const char* name) const;
  // Never let it go.
  void pin() { pinned_ = true; }
  bool pinned() const { return pinned_; }

 private:
  void* handle_ = nullptr;
  bool pinned_ = false;
};

}  // namespace oom_guard
