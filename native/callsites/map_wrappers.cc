// No TLS, no lock, no allocation, no logging; errno is what the original left: only the original
// and the table of ranges. An allocator calls these under its own locks, so anything more
// deadlocks.
#include "callsites/map_wrappers.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "callsites/slot_writer.h"
#include "os/os.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_TYPE
#define MAP_TYPE 0x0f
#endif

namespace oom_guard {
namespace {

// Written once by prepare(), before any slot can lead a thread here.
struct Originals {
  void* (*mmap)(void*, size_t, int, int, int, off64_t);
  void* (*mmap64)(void*, size_t, int, int, int, off64_t);
  int (*munmap)(void*, size_t);
  void* (*mremap)(void*, size_t, size_t, int, ...);
  int (*madvise)(void*, size_t, int);
};
Originals g_original;
PageRanges* g_ranges;

using Removed = PageRanges::Removed;

uintptr_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<uintptr_t>(pointer);
}

// A wrapper has no place to keep whose it is, so there is one of each for every owner.
template <unsigned kOwner>
struct Noting {
  // Memory that is only reserved is noted too: it is made writable later, by mprotect, and until
  // then no page of it is resident.
  template <class Map>
  static void* map(Map original, void* hint, size_t length, int protection, int flags, int file,
                   off64_t offset) noexcept {
    bool anonymous = (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_TYPE) == MAP_PRIVATE;
    bool replaces = (flags & MAP_FIXED) != 0 && (flags & MAP_FIXED_NOREPLACE) == 0;
    Removed removed;
    if (replaces) g_ranges->forget(address_of(hint), length, &removed);
    void* memory = original(hint, length, protection, flags, file, offset);
    if (memory == MAP_FAILED) {
      if (replaces) g_ranges->restore(removed);
    } else if (anonymous) {
      g_ranges->record(kOwner, address_of(memory), length);
    }
    return memory;
  }

  static void* mmap(void* hint, size_t length, int protection, int flags, int file,
                    off64_t offset) {
    return map(g_original.mmap, hint, length, protection, flags, file, offset);
  }
  static void* mmap64(void* hint, size_t length, int protection, int flags, int file,
                      off64_t offset) {
    return map(g_original.mmap64, hint, length, protection, flags, file, offset);
  }

  static int munmap(void* memory, size_t length) {
    Removed removed;
    g_ranges->forget(address_of(memory), length, &removed);
    int result = g_original.munmap(memory, length);
    if (result != 0) g_ranges->restore(removed);
    return result;
  }

  // The fifth argument is there only with some flags; without them what is passed on is not read.
  static void* mremap(void* memory, size_t old_length, size_t length, int flags, void* wanted) {
    Removed removed, replaced;
    g_ranges->forget(address_of(memory), old_length, &removed);
    if ((flags & MREMAP_FIXED) != 0) g_ranges->forget(address_of(wanted), length, &replaced);
    void* moved = g_original.mremap(memory, old_length, length, flags, wanted);
    if (moved == MAP_FAILED) {
      g_ranges->restore(removed);
      g_ranges->restore(replaced);
    } else if (removed.any()) {
      g_ranges->record(kOwner, address_of(moved), length);
      if ((flags & MREMAP_DONTUNMAP) != 0) {
        g_ranges->record(kOwner, address_of(memory), old_length);
      }
    }
    return moved;
  }
};

// Memory that is given back by MADV_FREE stays resident until the kernel needs it, and nothing
// cheap tells it from memory in use: mimalloc frees so what another thread had allocated, and 50 MB
// that are allocated and freed again and again read as ever more. So it is given back at once,
// which is all that MADV_FREE promises too.
int madvise_at_once(void* memory, size_t length, int advice) {
  return g_original.madvise(memory, length, advice == MADV_FREE ? MADV_DONTNEED : advice);
}

struct Wrappers {
  uintptr_t fn[5];
};

template <unsigned... kOwners>
const Wrappers& wrappers_of(unsigned owner, std::integer_sequence<unsigned, kOwners...>) {
  static const Wrappers all[] = {{{reinterpret_cast<uintptr_t>(&Noting<kOwners>::mmap),
                                   reinterpret_cast<uintptr_t>(&Noting<kOwners>::mmap64),
                                   reinterpret_cast<uintptr_t>(&Noting<kOwners>::munmap),
                                   reinterpret_cast<uintptr_t>(&Noting<kOwners>::mremap),
                                   reinterpret_cast<uintptr_t>(&madvise_at_once)}}...};
  return all[owner];
}

const Wrappers& wrappers_of(unsigned owner) {
  return wrappers_of(owner, std::make_integer_sequence<unsigned, PageRanges::kMaxOwners>());
}

bool parse(const ImageRecord& record, ElfImage* image) {
  return image->parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
}

}  // namespace

const char* const MapPatcher::kNames[kFns] = {"mmap", "mmap64", "munmap", "mremap", "madvise"};

void MapPatcher::Bindings::read(const ImageHold& hold) {
  for (unsigned fn = 0; fn < kFns; ++fn) address_[fn] = hold.resolve(kNames[fn]);
}

// The import names of an image that matter here, by index into its symbol table.
struct MapPatcher::Symbols {
  static constexpr unsigned kMax = 2 * kFns;  // a name may stand there twice: versions
  uint32_t index[kMax];
  Fn fn[kMax];
  unsigned size = 0;

  bool imports_malloc = false;

  explicit Symbols(const ElfImage& image) {
    for (uint32_t i = 1; i < image.first_hashed_symbol(); ++i) {
      const ElfW(Sym)* symbol = image.symbol(i);
      if (symbol == nullptr) return;
      const char* name = image.symbol_name(*symbol);
      if (name[0] == 'm') add(i, name);
    }
    // An import whose address is taken stands among the definitions.
    const ElfW(Sym)* first = image.symbol(0);
    for (const char* name : kNames) {
      const ElfW(Sym)* symbol = image.find_symbol(name);
      if (symbol != nullptr) add(static_cast<uint32_t>(symbol - first), name);
    }
    const ElfW(Sym)* malloc = image.find_symbol("malloc");
    if (malloc != nullptr && malloc->st_shndx == SHN_UNDEF) imports_malloc = true;
  }
  void add(uint32_t symbol, const char* name) {
    if (strcmp(name, "malloc") == 0) imports_malloc = true;
    for (unsigned n = 0; n < kFns && size < kMax; ++n) {
      if (strcmp(name, kNames[n]) != 0) continue;
      index[size] = symbol;
      fn[size++] = static_cast<Fn>(n);
    }
  }
  bool has(Fn wanted) const {
    for (unsigned i = 0; i < size; ++i) {
      if (fn[i] == wanted) return true;
    }
    return false;
  }
  bool find(uint32_t symbol, Fn* out) const {
    for (unsigned i = 0; i < size; ++i) {
      if (index[i] != symbol) continue;
      *out = fn[i];
      return true;
    }
    return false;
  }
};

bool MapPatcher::prepare(const ImageTable& images, PageRanges* ranges) {
  ElfImage image;
  for (unsigned i = 0; i < images.size(); ++i) {
    if (images[i].role != ImageRole::kLibc || !parse(images[i], &image)) continue;
    for (unsigned fn = 0; fn < kFns; ++fn) original_[fn] = image.find_defined(kNames[fn]);
  }
  for (uintptr_t original : original_) {
    if (original == 0) return false;
  }
  // What everyone sees: libc's function, or the executable's stub for it, which leads to the same
  // one unless the executable's own slot says otherwise.
  for (unsigned i = 0; i < images.size(); ++i) {
    if (images[i].role != ImageRole::kExecutable || !parse(images[i], &image)) continue;
    for (unsigned fn = 0; fn < kFns; ++fn) {
      const ElfW(Sym)* symbol = image.find_hashed(kNames[fn]);
      if (symbol == nullptr) continue;
      if (symbol->st_shndx != SHN_UNDEF) return false;
      executable_stub_[fn] = image.base() + symbol->st_value;
    }
    for (size_t n = image.first_import_relocation(); n < image.relocation_count(); ++n) {
      ImportSlot slot;
      if (!image.import_slot(n, &slot)) continue;
      const ElfW(Sym)* symbol = image.symbol(slot.symbol);
      if (symbol == nullptr) continue;
      const char* name = image.symbol_name(*symbol);
      for (unsigned fn = 0; fn < kFns && name[0] == 'm'; ++fn) {
        if (strcmp(name, kNames[fn]) == 0 && *slot.address != original_[fn] && *slot.address != 0 &&
            !image.contains(*slot.address)) {
          return false;
        }
      }
    }
  }
  for (unsigned fn = 0; fn < kFns; ++fn) {
    uintptr_t seen = address_of(dlsym(RTLD_DEFAULT, kNames[fn]));
    if (seen != original_[fn] && (seen == 0 || seen != executable_stub_[fn])) return false;
  }
  ranges->set_page_size(os::page_size());
  g_original.mmap = reinterpret_cast<decltype(g_original.mmap)>(original_[kMmap]);
  g_original.mmap64 = reinterpret_cast<decltype(g_original.mmap64)>(original_[kMmap64]);
  g_original.munmap = reinterpret_cast<decltype(g_original.munmap)>(original_[kMunmap]);
  g_original.mremap = reinterpret_cast<decltype(g_original.mremap)>(original_[kMremap]);
  g_original.madvise = reinterpret_cast<decltype(g_original.madvise)>(original_[kMadvise]);
  g_ranges = ranges;
  std::atomic_thread_fence(std::memory_order_release);
  prepared_ = true;
  return true;
}

bool MapPatcher::may_hide_allocator(const ElfImage& image) {
  Symbols symbols(image);
  if (!(symbols.has(kMmap) || symbols.has(kMmap64)) || !symbols.has(kMunmap)) return false;
  return symbols.has(kMadvise) || !symbols.imports_malloc;
}

bool MapPatcher::may_write(Fn fn, const ImportSlot& slot, uintptr_t now, const ElfImage& image,
                           const Bindings& bindings, bool* was_lazy) const {
  if (now == original_[fn] || (now != 0 && now == executable_stub_[fn])) return true;
  for (unsigned owner = 0; owner < PageRanges::kMaxOwners; ++owner) {
    if (now == wrappers_of(owner).fn[fn]) return true;
  }
  const ElfW(Sym)* symbol = image.symbol(slot.symbol);
  if (!slot.jump_slot || !image.contains(now) || symbol->st_shndx != SHN_UNDEF) return false;
  // The image's own lazy stub hides what it will be bound to.
  *was_lazy = bindings.address_[fn] == original_[fn];
  return *was_lazy;
}

unsigned MapPatcher::patch(ImageRecord* record, const ElfImage& image, const Bindings& bindings,
                           unsigned owner) {
  if (!prepared_ || owner >= PageRanges::kMaxOwners) return 0;
  // Another thread that binds a slot at this moment changes it once.
  for (int tries = 0; tries < 3; ++tries) {
    unsigned written = 0;
    if (try_patch(record, image, bindings, owner, &written)) return written;
  }
  return 0;
}

// False when a slot did not hold any more what it had held when it was judged.
bool MapPatcher::try_patch(ImageRecord* record, const ElfImage& image, const Bindings& bindings,
                           unsigned owner, unsigned* written) {
  constexpr unsigned kMaxSlots = 32;
  struct {
    ImportSlot slot;
    uintptr_t judged;
    Fn fn;
  } slots[kMaxSlots];
  unsigned count = 0;
  *written = 0;
  Symbols symbols(image);
  for (size_t n = image.first_import_relocation(); n < image.relocation_count(); ++n) {
    ImportSlot slot;
    Fn fn;
    if (!image.import_slot(n, &slot) || !symbols.find(slot.symbol, &fn)) continue;
    const uintptr_t judged = __atomic_load_n(slot.address, __ATOMIC_ACQUIRE);
    bool was_lazy = false;
    if (may_write(fn, slot, judged, image, bindings, &was_lazy) && count < kMaxSlots) {
      slots[count].slot = slot;
      slots[count].judged = judged;
      slots[count++].fn = fn;
      if (was_lazy) record->lazy = true;
    } else if (fn == kMunmap || fn == kMremap) {
      return true;
    }
  }
  SlotWriter writer(image);
  // What takes away comes first: until a range is noted there is nothing to forget.
  for (bool maps : {false, true}) {
    for (unsigned i = 0; i < count; ++i) {
      Fn fn = slots[i].fn;
      if ((fn == kMmap || fn == kMmap64) != maps) continue;
      uintptr_t* address = slots[i].slot.address;
      const uintptr_t value = wrappers_of(owner).fn[fn];
      if (writer.write(address, slots[i].judged, value)) {
        record->note_written(address, value);
        ++*written;
      } else if (!maps) {
        *written = 0;
        return __atomic_load_n(address, __ATOMIC_ACQUIRE) == slots[i].judged;
      }
    }
  }
  return true;
}

}  // namespace oom_guard
