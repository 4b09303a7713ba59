#include "callsites/elf_image.h"

#include <elf.h>

#include <cstring>
#include <type_traits>

namespace oom_guard {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobDat = R_X86_64_GLOB_DAT,
                   kAbsolute = R_X86_64_64;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobDat = R_AARCH64_GLOB_DAT,
                   kAbsolute = R_AARCH64_ABS64;
#endif

// Nobody imports more, and a damaged count must not keep us busy for ever.
constexpr uint32_t kMaxSymbols = 1u << 24;
constexpr size_t kMaxName = 4096;

uint32_t gnu_hash(const char* name) {
  uint32_t hash = 5381;
  for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

}  // namespace

const char* describe(ImageError error) {
  switch (error) {
    case ImageError::kNone:
      return "";
    case ImageError::kNoDynamicSection:
      return "no dynamic section";
    case ImageError::kDynamicSectionOutOfBounds:
      return "dynamic section out of bounds";
    case ImageError::kNoSymbols:
      return "no symbol table";
    case ImageError::kTableOutOfBounds:
      return "a table lies outside the image";
  }
  return "";
}

ImageError ElfImage::parse(uintptr_t base, const ElfW(Phdr) * phdr, size_t phdr_count) {
  *this = ElfImage();
  base_ = base;
  phdr_ = phdr;
  phdr_count_ = phdr_count;
  start_ = UINTPTR_MAX;
  const ElfW(Phdr)* dynamic = nullptr;
  for (size_t i = 0; i < phdr_count; ++i) {
    if (phdr[i].p_type == PT_DYNAMIC) dynamic = &phdr[i];
    if (phdr[i].p_type != PT_LOAD || phdr[i].p_memsz == 0) continue;
    uintptr_t from = base + phdr[i].p_vaddr, to = from + phdr[i].p_memsz;
    if (to < from) continue;
    if (from < start_) start_ = from;
    if (to > end_) end_ = to;
  }
  if (dynamic == nullptr) return ImageError::kNoDynamicSection;
  dynamic_ = base + dynamic->p_vaddr;
  dyn_count_ = dynamic->p_memsz / sizeof(ElfW(Dyn));
  if (dyn_count_ == 0 || dynamic_ % alignof(ElfW(Dyn)) != 0 ||
      !contains(dynamic_, dyn_count_ * sizeof(ElfW(Dyn)))) {
    return ImageError::kDynamicSectionOutOfBounds;
  }
  dyn_ = reinterpret_cast<const ElfW(Dyn)*>(dynamic_);
  if (!read_dynamic(dyn_, dyn_count_)) return ImageError::kTableOutOfBounds;
  if (symtab_ == nullptr || strtab_ == nullptr) return ImageError::kNoSymbols;
  count_symbols();
  return ImageError::kNone;
}

bool ElfImage::contains(uintptr_t address, size_t length) const {
  for (size_t i = 0; i < phdr_count_; ++i) {
    if (phdr_[i].p_type != PT_LOAD) continue;
    uintptr_t offset = address - (base_ + phdr_[i].p_vaddr);
    if (offset < phdr_[i].p_memsz && length <= phdr_[i].p_memsz - offset) return true;
  }
  return false;
}

// Bytes from here to the end of the segment.
size_t ElfImage::room_at(uintptr_t address) const {
  for (size_t i = 0; i < phdr_count_; ++i) {
    if (phdr_[i].p_type != PT_LOAD) continue;
    uintptr_t offset = address - (base_ + phdr_[i].p_vaddr);
    if (offset < phdr_[i].p_memsz) return phdr_[i].p_memsz - offset;
  }
  return 0;
}

bool ElfImage::writable(uintptr_t address) const {
  for (size_t i = 0; i < phdr_count_; ++i) {
    if (phdr_[i].p_type == PT_LOAD && address - (base_ + phdr_[i].p_vaddr) < phdr_[i].p_memsz) {
      return (phdr_[i].p_flags & PF_W) != 0;
    }
  }
  return false;
}

void ElfImage::relro(size_t page_size, uintptr_t* first, uintptr_t* last) const {
  *first = *last = 0;
  for (size_t i = 0; i < phdr_count_; ++i) {
    if (phdr_[i].p_type != PT_GNU_RELRO) continue;
    uintptr_t from = base_ + phdr_[i].p_vaddr;
    *first = from & ~(page_size - 1);
    *last = (from + phdr_[i].p_memsz) & ~(page_size - 1);
  }
}

// glibc has already added the base to the pointers in a dynamic section, musl and the vdso have
// not.
uintptr_t ElfImage::resolve(uintptr_t value, size_t length) const {
  if (contains(value, length)) return value;
  if (contains(base_ + value, length)) return base_ + value;
  return 0;
}

bool ElfImage::read_dynamic(const ElfW(Dyn) * dynamic, size_t count) {
  uintptr_t symtab = 0, strtab = 0, rela = 0, jmprel = 0, versions = 0, gnu = 0, sysv = 0;
  size_t rela_size = 0, jmprel_size = 0;
  ElfW(Sxword) plt_type = DT_RELA;
  for (size_t i = 0; i < count && dynamic[i].d_tag != DT_NULL; ++i) {
    uintptr_t value = dynamic[i].d_un.d_val;
    switch (dynamic[i].d_tag) {
      case DT_SYMTAB:
        symtab = value;
        break;
      case DT_STRTAB:
        strtab = value;
        break;
      case DT_STRSZ:
        strtab_size_ = value;
        break;
      case DT_RELA:
        rela = value;
        break;
      case DT_RELASZ:
        rela_size = value;
        break;
      case DT_RELACOUNT:
        rela_relative_ = value;
        break;
      case DT_JMPREL:
        jmprel = value;
        break;
      case DT_PLTRELSZ:
        jmprel_size = value;
        break;
      case DT_PLTREL:
        plt_type = static_cast<ElfW(Sxword)>(value);
        break;
      case DT_GNU_HASH:
        gnu = value;
        break;
      case DT_HASH:
        sysv = value;
        break;
      case DT_VERSYM:
        versions = value;
        break;
      default:
        break;
    }
  }
  // A table that is named must be there, whole and aligned.
  auto table = [this](uintptr_t value, size_t length, size_t alignment, auto** out) {
    if (value == 0) return true;
    uintptr_t address = resolve(value, length);
    if (address == 0 || address % alignment != 0) return false;
    *out = reinterpret_cast<std::remove_reference_t<decltype(*out)>>(address);
    return true;
  };
  if (plt_type != DT_RELA) jmprel_size = 0;  // REL is not used on the architectures we know
  rela_count_ = rela_size / sizeof(ElfW(Rela));
  jmprel_count_ = jmprel_size / sizeof(ElfW(Rela));
  if (rela == 0) rela_count_ = 0;
  if (jmprel == 0) jmprel_count_ = 0;
  if (rela_relative_ > rela_count_) rela_relative_ = rela_count_;
  return table(symtab, sizeof(ElfW(Sym)), alignof(ElfW(Sym)), &symtab_) &&
         table(strtab, strtab_size_ ? strtab_size_ : 1, 1, &strtab_) &&
         table(rela, rela_count_ * sizeof(ElfW(Rela)), alignof(ElfW(Rela)), &rela_) &&
         table(jmprel, jmprel_count_ * sizeof(ElfW(Rela)), alignof(ElfW(Rela)), &jmprel_) &&
         table(gnu, 4 * sizeof(uint32_t), alignof(ElfW(Addr)), &gnu_hash_) &&
         table(sysv, 2 * sizeof(uint32_t), 4, &sysv_hash_) &&
         table(versions, sizeof(ElfW(Half)), alignof(ElfW(Half)), &versions_);
}

// The dynamic section does not say how many symbols there are; the hash tables do.
void ElfImage::count_symbols() {
  if (sysv_hash_ != nullptr) symbol_count_ = sysv_hash_[1];
  bool hashes_nothing = false;
  if (gnu_hash_ != nullptr) {
    uint32_t bucket_count = gnu_hash_[0], bloom_words = gnu_hash_[2];
    first_hashed_ = gnu_hash_[1];
    uintptr_t buckets_at = reinterpret_cast<uintptr_t>(gnu_hash_ + 4) +
                           static_cast<uintptr_t>(bloom_words) * sizeof(ElfW(Addr));
    uint32_t highest = 0;
    // From its head to its last bucket in one segment, the filter in between included.
    const uintptr_t head = reinterpret_cast<uintptr_t>(gnu_hash_);
    if (bucket_count < kMaxSymbols && bloom_words < kMaxSymbols &&
        contains(head, buckets_at - head + bucket_count * sizeof(uint32_t))) {
      const uint32_t* buckets = reinterpret_cast<const uint32_t*>(buckets_at);
      for (uint32_t i = 0; i < bucket_count; ++i) {
        if (buckets[i] > highest) highest = buckets[i];
      }
      hashes_nothing = highest < first_hashed_;
      if (symbol_count_ == 0) {
        if (hashes_nothing) {
          symbol_count_ = first_hashed_;
        } else {
          const uint32_t* chain = buckets + bucket_count;
          while (highest < kMaxSymbols &&
                 contains(reinterpret_cast<uintptr_t>(chain + (highest - first_hashed_)), 4) &&
                 (chain[highest - first_hashed_] & 1) == 0) {
            ++highest;
          }
          symbol_count_ = highest + 1;
        }
      }
    } else {
      gnu_hash_ = nullptr;
      first_hashed_ = 0;
    }
  }
  // An image that defines nothing has an empty hash table, which says nothing about its imports: ld
  // lets it begin at 1 then. The older table beside it knows how many there are.
  if (hashes_nothing && symbol_count_ > first_hashed_) first_hashed_ = symbol_count_;
  if (symbol_count_ <= 1) {
    for (size_t i = 0; i < relocation_count(); ++i) {
      const ElfW(Rela)& entry = i < rela_count_ ? rela_[i] : jmprel_[i - rela_count_];
      uint32_t index = static_cast<uint32_t>(ELF64_R_SYM(entry.r_info));
      if (index >= symbol_count_ && index < kMaxSymbols) symbol_count_ = index + 1;
    }
    first_hashed_ = symbol_count_;
  }
  const size_t room = room_at(reinterpret_cast<uintptr_t>(symtab_)) / sizeof(ElfW(Sym));
  if (symbol_count_ > room) symbol_count_ = static_cast<uint32_t>(room);
  if (gnu_hash_ == nullptr || first_hashed_ > symbol_count_) first_hashed_ = symbol_count_;
}

const ElfW(Sym) * ElfImage::symbol(uint32_t index) const {
  const ElfW(Sym)* at = symtab_ + index;
  return contains(reinterpret_cast<uintptr_t>(at), sizeof(*at)) ? at : nullptr;
}

const char* ElfImage::symbol_name(const ElfW(Sym) & symbol) const {
  if (symbol.st_name >= strtab_size_) return "";
  const char* name = strtab_ + symbol.st_name;
  size_t room = strtab_size_ - symbol.st_name;
  return memchr(name, 0, room < kMaxName ? room : kMaxName) != nullptr ? name : "";
}

bool ElfImage::is_named(uint32_t index, const char* name) const {
  const ElfW(Sym)* at = symbol(index);
  return at != nullptr && strcmp(symbol_name(*at), name) == 0;
}

// A hidden version (name@VERSION) is there for old binaries; name@@VERSION is what is meant today.
bool ElfImage::is_default_version(uint32_t index) const {
  if (versions_ == nullptr) return true;
  const ElfW(Half)* version = versions_ + index;
  return !contains(reinterpret_cast<uintptr_t>(version), sizeof(*version)) ||
         (*version & 0x8000) == 0;
}

uint32_t ElfImage::gnu_lookup(const char* name) const {
  uint32_t bucket_count = gnu_hash_[0], bloom_words = gnu_hash_[2], shift = gnu_hash_[3];
  if (bucket_count == 0 || bloom_words == 0) return 0;
  const ElfW(Addr)* bloom = reinterpret_cast<const ElfW(Addr)*>(gnu_hash_ + 4);
  const uint32_t* buckets = reinterpret_cast<const uint32_t*>(bloom + bloom_words);
  const uint32_t* chain = buckets + bucket_count;
  constexpr uint32_t kBits = sizeof(ElfW(Addr)) * 8;
  uint32_t hash = gnu_hash(name);
  ElfW(Addr) word = bloom[(hash / kBits) % bloom_words];
  ElfW(Addr) mask = (static_cast<ElfW(Addr)>(1) << (hash % kBits)) |
                    (static_cast<ElfW(Addr)>(1) << ((hash >> (shift & 31)) % kBits));
  if ((word & mask) != mask) return 0;
  uint32_t hidden = 0;
  for (uint32_t i = buckets[hash % bucket_count]; i >= first_hashed_ && i < symbol_count_; ++i) {
    const uint32_t* link = chain + (i - first_hashed_);
    if (!contains(reinterpret_cast<uintptr_t>(link), sizeof(*link))) break;
    if ((*link | 1) == (hash | 1) && is_named(i, name)) {
      if (is_default_version(i)) return i;
      hidden = i;
    }
    if (*link & 1) break;
  }
  return hidden;
}

const ElfW(Sym) * ElfImage::find_symbol(const char* name) const {
  uint32_t found = 0;
  if (symtab_ == nullptr || strtab_ == nullptr) return nullptr;
  if (gnu_hash_ != nullptr) {
    found = gnu_lookup(name);
  } else {
    for (uint32_t i = 1; i < symbol_count_ && found == 0; ++i) {
      const ElfW(Sym)* at = symbol(i);
      if (at != nullptr && is_named(i, name)) found = i;
    }
  }
  return found != 0 ? symbol(found) : nullptr;
}

const ElfW(Sym) * ElfImage::find_hashed(const char* name) const {
  const ElfW(Sym)* at = find_symbol(name);
  return at != nullptr && at->st_value != 0 ? at : nullptr;
}

uintptr_t ElfImage::find_defined(const char* name) const {
  const ElfW(Sym)* at = find_hashed(name);
  return at != nullptr && at->st_shndx != SHN_UNDEF ? base_ + at->st_value : 0;
}

const char* ElfImage::next_name_with_suffix(const char* suffix, const char* from) const {
  size_t length = strlen(suffix) + 1;  // with its end: the name must stop there
  const char* at = from != nullptr ? from + strlen(from) : strtab_;
  while (at != nullptr && at < strtab_ + strtab_size_) {
    at = static_cast<const char*>(
        memmem(at, static_cast<size_t>(strtab_ + strtab_size_ - at), suffix, length));
    if (at == nullptr) return nullptr;
    const char* name = at;
    while (name > strtab_ && name[-1] != '\0') --name;
    return name;
  }
  return nullptr;
}

const char* ElfImage::soname() const {
  for (size_t i = 0; i < dyn_count_ && dyn_[i].d_tag != DT_NULL; ++i) {
    if (dyn_[i].d_tag != DT_SONAME) continue;
    ElfW(Sym) named{};
    named.st_name = static_cast<ElfW(Word)>(dyn_[i].d_un.d_val);
    return symbol_name(named);
  }
  return "";
}

const char* ElfImage::needed(size_t n) const {
  for (size_t i = 0; i < dyn_count_ && dyn_[i].d_tag != DT_NULL; ++i) {
    if (dyn_[i].d_tag != DT_NEEDED || n-- != 0) continue;
    ElfW(Sym) named{};
    named.st_name = static_cast<ElfW(Word)>(dyn_[i].d_un.d_val);
    return symbol_name(named);
  }
  return nullptr;
}

bool ElfImage::import_slot(size_t n, ImportSlot* slot) const {
  bool plt = n >= rela_count_;
  // Relative relocations come first, carry no symbol and are most of a large image.
  if (!plt && n < rela_relative_) return false;
  const ElfW(Rela)& entry = plt ? jmprel_[n - rela_count_] : rela_[n];
  uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
  uint32_t index = static_cast<uint32_t>(ELF64_R_SYM(entry.r_info));
  if (index == 0 || index >= symbol_count_) return false;
  // RELATIVE, IRELATIVE, COPY and TPOFF may carry a matching name but must never be written.
  if (type != kJumpSlot && type != kGlobDat && type != kAbsolute) return false;
  if (type == kAbsolute && entry.r_addend != 0) return false;
  uintptr_t address = base_ + entry.r_offset;
  if (address % sizeof(uintptr_t) != 0 || !contains(address, sizeof(uintptr_t))) return false;
  slot->address = reinterpret_cast<uintptr_t*>(address);
  slot->symbol = index;
  slot->jump_slot = type == kJumpSlot;
  return true;
}

}  // namespace oom_guard
