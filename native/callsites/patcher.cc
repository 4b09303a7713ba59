#include "callsites/patcher.h"

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "callsites/nesting.h"
#include "callsites/slot_writer.h"

namespace oom_guard {
namespace {

// The names of the family in one image's symbol table. One name may stand there twice (versions).
struct FamilySymbols {
  struct Entry {
    uint32_t symbol;
    Fn fn;
  };
  static constexpr unsigned kMax = 2 * kFnCount;
  Entry entries[kMax];
  unsigned size = 0;

  void add(uint32_t symbol, unsigned fn) {
    if (size < kMax) entries[size++] = {symbol, static_cast<Fn>(fn)};
  }
  const Entry* find(uint32_t symbol) const {
    for (unsigned i = 0; i < size; ++i) {
      if (entries[i].symbol == symbol) return &entries[i];
    }
    return nullptr;
  }
};

bool is_operator(Fn fn) {
  return kFnNames[index_of(fn)][0] == '_';
}

bool may_be_family(const char* name) {
  switch (name[0]) {
    case 'a':
    case 'c':
    case 'f':
    case 'm':
    case 'p':
    case 'r':
    case 'v':
      return true;
    case '_':
      return name[1] == 'Z' && (name[2] == 'n' || name[2] == 'd');
    default:
      return false;
  }
}

void collect_family(const ElfImage& image, const char* prefix, FamilySymbols* out) {
  const size_t skip = strlen(prefix);
  for (uint32_t i = 1; i < image.first_hashed_symbol(); ++i) {
    const ElfW(Sym)* symbol = image.symbol(i);
    if (symbol == nullptr) return;
    const char* name = image.symbol_name(*symbol);
    if (strncmp(name, prefix, skip) != 0 || !may_be_family(name + skip)) continue;
    for (unsigned fn = 0; fn < kFnCount; ++fn) {
      if (strcmp(name + skip, kFnNames[fn]) == 0) out->add(i, fn);
    }
  }
  const ElfW(Sym)* first = image.symbol(0);
  for (unsigned fn = 0; fn < kFnCount; ++fn) {
    char name[96];
    snprintf(name, sizeof(name), "%s%s", prefix, kFnNames[fn]);
    const ElfW(Sym)* hashed = image.find_symbol(name);
    if (hashed != nullptr) out->add(static_cast<uint32_t>(hashed - first), fn);
  }
}

const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

bool parse(const ImageRecord& record, ElfImage* image) {
  return image->parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
}

// The loaded image that satisfies a DT_NEEDED entry, as the loader matches them: by path or soname.
int find_needed(const ImageTable& images, const char* needed) {
  for (unsigned i = 0; i < images.size(); ++i) {
    if (strcmp(base_name(images[i].path), needed) == 0 || strcmp(images[i].path, needed) == 0) {
      return static_cast<int>(i);
    }
  }
  for (unsigned i = 0; i < images.size(); ++i) {
    if (strcmp(images[i].soname, needed) == 0) return static_cast<int>(i);
  }
  return -1;
}

// Visits an image and all that it needs, directly and indirectly, until `visit` returns false. What
// a held image needs is held with it, so it can be read.
template <class Table, class Record, class Visit>
void each_needed(Table& images, Record& first, Visit visit) {
  bool reached[ImageTable::kMaxImages] = {};
  uint16_t queue[ImageTable::kMaxImages];
  unsigned head = 0, tail = 0;
  Record* record = &first;
  for (;;) {
    if (!visit(*record)) return;
    ElfImage image;
    if (!parse(*record, &image)) image = ElfImage();
    const char* needed;
    for (size_t n = 0; (needed = image.needed(n)) != nullptr; ++n) {
      int found = find_needed(images, needed);
      if (found < 0 || reached[found]) continue;
      reached[found] = true;
      queue[tail++] = static_cast<uint16_t>(found);
    }
    if (head == tail) return;
    record = &images[queue[head++]];
  }
}

}  // namespace

// What is found out about one image while its slots are looked at.
struct Patcher::Context {
  const ImageTable& images;
  const ImageRecord& record;
  const ImageRecord& before;  // what the record said before this visit
  const ElfImage& image;
  enum class Stub : uint8_t { kUnknown, kSafe, kUnsafe } stub = Stub::kUnknown;
  bool had_stubs = false;
};

bool Patcher::prepare(ImageTable* images, const Provider& provider) {
  if (provider.problem[0] != '\0') {
    problem_ = provider.problem;
    return false;
  }
  memcpy(original_, provider.original, sizeof(original_));
  memcpy(executable_stub_, provider.executable_stub, sizeof(executable_stub_));
  usable_size_ = provider.usable_size;
  publish_originals(heap_, original_, usable_size_);
  if (provider.is_libc && glibc_header_agrees()) {
    sizer_ = Sizer::kGlibcHeader;
  } else if (provider.size_of_request != nullptr && provider.mallctl != nullptr &&
             learn_size_classes(provider.size_of_request) && learn_freed_totals(provider.mallctl)) {
    sizer_ = Sizer::kJemalloc;
  }
  for (unsigned i = 0; i < images->size(); ++i) {
    if ((*images)[i].role != ImageRole::kExecutable) continue;
    each_needed(*images, (*images)[i], [](ImageRecord& record) { return record.global = true; });
  }
  if (provider.is_libc) learn_nesting(images);

  // Node 26: ld.so frees through the executable's stub, but its allocations never pass one.
  if (executable_stub_[index_of(Fn::free)] != 0 && executable_stub_[index_of(Fn::malloc)] == 0 &&
      executable_stub_[index_of(Fn::calloc)] == 0) {
    for (unsigned i = 0; i < images->size(); ++i) {
      const ImageRecord& record = (*images)[i];
      if (record.role != ImageRole::kLoader) continue;
      loader_start_ = record.start;
      loader_end_ = record.end;
    }
  }
  choose_targets();
  return true;
}

bool Patcher::prepare_embedded(unsigned heap, const ElfImage& image, const char* prefix) {
  heap_ = heap;
  snprintf(prefix_, sizeof(prefix_), "%s", prefix);
  char name[96];
  for (unsigned fn = 0; fn < kFnCount; ++fn) {
    snprintf(name, sizeof(name), "%s%s", prefix, kFnNames[fn]);
    original_[fn] = reinterpret_cast<AnyFn>(image.find_defined(name));
  }
  snprintf(name, sizeof(name), "%smalloc_usable_size", prefix);
  usable_size_ = reinterpret_cast<UsableSizeFn>(image.find_defined(name));
  for (Fn fn : kCoreFns) {
    if (original(fn) == 0 || usable_size_ == nullptr) {
      problem_ = "it does not export the functions that would have to be wrapped";
      return false;
    }
  }
  publish_originals(heap_, original_, usable_size_);
  choose_targets();
  return true;
}

void Patcher::choose_targets() {
  const WrapperSet& counting = counting_wrappers(heap_, sizer_);
  for (unsigned fn = 0; fn < kFnCount; ++fn) {
    target_[fn] = original_[fn] != nullptr && !nested_[fn] ? counting.fn[fn] : nullptr;
  }
  executable_free_ =
      loader_end_ != 0 ? free_unless_loader(sizer_, loader_start_, loader_end_) : nullptr;
}

void Patcher::retarget(SlotTarget target) {
  const Sizer chosen = sizer_;
  if (target == SlotTarget::kCountingByUsableSize) sizer_ = Sizer::kUsableSize;
  choose_targets();
  sizer_ = chosen;
  if (target == SlotTarget::kOriginal) {
    memcpy(target_, original_, sizeof(target_));
    executable_free_ = nullptr;
  }
}

bool Patcher::glibc_header_agrees() const {
  auto* allocate = reinterpret_cast<void* (*)(size_t)>(original(Fn::malloc));
  auto* align = reinterpret_cast<void* (*)(size_t, size_t)>(original(Fn::memalign));
  auto* release = reinterpret_cast<void (*)(void*)>(original(Fn::free));
  if (align == nullptr) return false;
  constexpr size_t kSizes[] = {0, 1, 24, 25, 100, 1000, 4096, 70000, 4u << 20};
  constexpr size_t kAlignments[] = {0, 64, 4096};
  for (size_t size : kSizes) {
    for (size_t alignment : kAlignments) {
      void* block = alignment == 0 ? allocate(size) : align(alignment, size);
      if (block == nullptr) return false;
      size_t header = static_cast<size_t*>(block)[-1];
      bool mapped = (header & 2) != 0;
      size_t usable = (header & ~static_cast<size_t>(7)) - (mapped ? 16 : 8);
      bool agrees = usable == usable_size_(block);
      release(block);
      if (!agrees) return false;
    }
  }
  return true;
}

void Patcher::learn_nesting(ImageTable* images) {
  for (unsigned i = 0; i < images->size(); ++i) {
    ImageRecord& record = (*images)[i];
    ElfImage image;
    if (record.role != ImageRole::kLibc || !parse(record, &image)) continue;
    memcpy(target_, probing_wrappers().fn, sizeof(target_));
    for (unsigned fn = 0; fn < kFnCount; ++fn) {
      if (original_[fn] == nullptr) target_[fn] = nullptr;
    }
    probing_ = true;
    patch_with(*images, &record, record, image);
    for (unsigned fn = 0; fn < kFnCount; ++fn) {
      nested_[fn] = original_[fn] != nullptr && is_booked_inside(static_cast<Fn>(fn), original_);
    }
    probing_ = false;
    // What was written is written over when libc is visited with all other images.
  }
}

void Patcher::patch(const ImageTable& images, ImageRecord* record, const ImageRecord& before) {
  record->patched = record->skipped_count = 0;
  switch (record->role) {
    case ImageRole::kVdso:
    case ImageRole::kLoader:
      return;
    case ImageRole::kProvider:
      record->note = "provides malloc; its own calls are not seen";
      return;
    default:
      break;
  }
  ElfImage image;
  ImageError error = image.parse(record->base, record->phdr, record->phdr_count);
  if (error != ImageError::kNone) {
    record->note = describe(error);
    return;
  }
  patch_with(images, record, before, image);
}

unsigned Patcher::patch_embedded(const ImageTable& images, ImageRecord* record) {
  ImageRecord own = *record;
  own.written_count = 0;
  patch(images, &own, own);
  if (own.lazy) record->lazy = true;
  for (unsigned i = 0; i < own.written_count; ++i) {
    record->note_written(own.written[i].address, own.written[i].value);
  }
  return own.patched;
}

void Patcher::patch_with(const ImageTable& images, ImageRecord* record, const ImageRecord& before,
                         const ElfImage& image) {
  FamilySymbols family;
  collect_family(image, prefix_, &family);
  if (family.size == 0) return;
  Context context{images, *record, before, image};
  SlotWriter writer(image);
  for (size_t n = 0; n < image.relocation_count(); ++n) {
    ImportSlot slot;
    if (!image.import_slot(n, &slot)) continue;
    const FamilySymbols::Entry* entry = family.find(slot.symbol);
    if (entry == nullptr) continue;
    SlotReason reason = SlotReason::kForeign;
    Verdict verdict = patch_slot(&context, entry->fn, slot, &writer, &reason);
    if (verdict == Verdict::kIgnore) continue;
    if (verdict == Verdict::kSkip) {
      record->skip(entry->fn, reason);
      continue;
    }
    ++record->patched;
    record->note_written(slot.address, __atomic_load_n(slot.address, __ATOMIC_RELAXED));
  }
  if (context.had_stubs) record->lazy = true;
}

Patcher::Verdict Patcher::patch_slot(Context* context, Fn fn, const ImportSlot& slot,
                                     SlotWriter* writer, SlotReason* reason) {
  uintptr_t now = __atomic_load_n(slot.address, __ATOMIC_ACQUIRE);
  // Another thread that binds the slot at this moment changes it once; who changes it more often
  // is left alone.
  for (int tries = 0; tries < 3; ++tries) {
    uintptr_t value = 0;
    const Verdict verdict = judge(context, fn, slot, now, &value, reason);
    if (verdict != Verdict::kWrite || writer->write(slot.address, now, value)) return verdict;
    const uintptr_t judged = now;
    now = __atomic_load_n(slot.address, __ATOMIC_ACQUIRE);
    if (now == judged) break;
  }
  *reason = SlotReason::kProtected;
  return Verdict::kSkip;
}

Patcher::Verdict Patcher::judge(Context* context, Fn fn, const ImportSlot& slot, uintptr_t now,
                                uintptr_t* value, SlotReason* reason) {
  const unsigned i = index_of(fn);
  const ElfImage& image = context->image;
  AnyFn target = target_[i];
  if (fn == Fn::free && executable_free_ != nullptr && !probing_ &&
      context->record.role == ImageRole::kExecutable) {
    target = executable_free_;
  }
  const uintptr_t original = reinterpret_cast<uintptr_t>(original_[i]);
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(target);

  if (now == 0) {
    *reason = SlotReason::kNull;
    return Verdict::kSkip;
  }
  if (now == executable_stub_[i]) {
    *reason = SlotReason::kExecutableStub;
    return Verdict::kSkip;
  }
  if (wanted != 0 && now == wanted) return Verdict::kDone;
  if (is_ours(fn, now)) {
    // Left from learning which functions nest, or from a benchmark.
    *value = wanted != 0 ? wanted : original;
    return Verdict::kWrite;
  }
  // Booked inside another function of the family (reallocarray in realloc, libstdc++'s operator new
  // in malloc): nothing is lost.
  if (wanted == 0 && (original != 0 || is_operator(fn))) return Verdict::kIgnore;
  if (wanted == 0) {
    *reason = SlotReason::kNotWrapped;
    return Verdict::kSkip;
  }
  *value = wanted;
  if (now == original) return Verdict::kWrite;
  const ElfW(Sym)* symbol = image.symbol(slot.symbol);
  bool own_definition = symbol->st_shndx != SHN_UNDEF && now == image.base() + symbol->st_value;
  if (slot.jump_slot && image.contains(now) && !own_definition) {
    // The image's own lazy stub hides what it will be bound to.
    const bool own_function = heap_ != 0;  // it binds to itself
    context->had_stubs = true;
    if (own_function || stub_is_safe(context, *symbol)) {
      return Verdict::kWrite;
    }
    *reason = SlotReason::kUncertainStub;
    return Verdict::kSkip;
  }
  const bool was_ours = context->before.was_written(slot.address) ||
                        context->before.skipped_for(fn, SlotReason::kOverwritten);
  *reason = was_ours ? SlotReason::kOverwritten : SlotReason::kForeign;
  return Verdict::kSkip;
}

bool Patcher::is_ours(Fn fn, uintptr_t value) const {
  auto in = [&](const WrapperSet& set) {
    return value == reinterpret_cast<uintptr_t>(set.fn[index_of(fn)]);
  };
  if (in(counting_wrappers(heap_, Sizer::kUsableSize))) return true;
  if (heap_ != 0) return false;
  if (in(probing_wrappers()) || in(counting_wrappers(heap_, Sizer::kGlibcHeader)) ||
      in(counting_wrappers(heap_, Sizer::kJemalloc))) {
    return true;
  }
  if (fn != Fn::free || loader_end_ == 0) return false;
  for (Sizer sizer : {Sizer::kGlibcHeader, Sizer::kUsableSize}) {
    AnyFn variant = free_unless_loader(sizer, loader_start_, loader_end_);
    if (value == reinterpret_cast<uintptr_t>(variant)) return true;
  }
  return false;
}

// A stub will be bound to the provider unless the image is deep-bound, or local, beside a library
// that brings a malloc of its own; patching it then would mix two allocators.
bool Patcher::stub_is_safe(Context* context, const ElfW(Sym) & symbol) {
  // What the executable needs is bound in the global scope, where the provider comes first. That is
  // so for libstdc++ too, which defines operator new and yet binds it to a preloaded allocator's.
  if (context->record.global) return true;
  if (symbol.st_shndx != SHN_UNDEF) return false;
  if (context->stub == Context::Stub::kUnknown) {
    bool safe = true;
    each_needed(context->images, context->record, [&](const ImageRecord& record) {
      bool excepted = record.role == ImageRole::kLibc || record.role == ImageRole::kProvider ||
                      record.role == ImageRole::kLoader;
      safe = excepted || !record.brings_allocator;
      return safe;
    });
    context->stub = safe ? Context::Stub::kSafe : Context::Stub::kUnsafe;
  }
  return context->stub == Context::Stub::kSafe;
}

}  // namespace oom_guard
