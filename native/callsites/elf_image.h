// A loaded ELF image, read from memory: its symbols, its needed libraries, its import slots.
// Every table is checked to lie inside the image's own segments; a broken image is rejected, never
// followed. Nothing here allocates or locks, so that it may run under the loader's lock.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace oom_guard {

enum class ImageError : uint8_t {
  kNone,
  kNoDynamicSection,
  kDynamicSectionOutOfBounds,
  kNoSymbols,
  kTableOutOfBounds,
};

const char* describe(ImageError error);

// A place in an image through which it calls (or takes the address of) a symbol.
struct ImportSlot {
  uintptr_t* address;
  uint32_t symbol;  // index into the image's symbol table
  bool jump_slot;   // may be bound lazily
};

class ElfImage {
 public:
  // `base` is the load bias and `phdr` the program headers as the loader reports them.
  ImageError parse(uintptr_t base, const ElfW(Phdr) * phdr, size_t phdr_count);

  uintptr_t base() const { return base_; }
  uintptr_t dynamic() const { return dynamic_; }

  bool contains(uintptr_t address, size_t length = 1) const;
  // Whether that lies in a segment that the image itself may write: not so for the slots of an
  // image with text relocations once it is loaded.
  bool writable(uintptr_t address) const;
  // The range from the first to the last byte of all segments.
  uintptr_t start() const { return start_; }
  uintptr_t end() const { return end_; }
  // Pages that the loader made read-only after relocation: from its start, rounded down, to its
  // end, rounded DOWN. The last, partly covered page stays writable.
  void relro(size_t page_size, uintptr_t* first, uintptr_t* last) const;

  uint32_t symbol_count() const { return symbol_count_; }
  // Symbols below this index are not in the hash table: imports. Others may be imports all the
  // same: an executable's canonical stubs, and what ld leaves there because its address is taken.
  uint32_t first_hashed_symbol() const { return first_hashed_; }
  const ElfW(Sym) * symbol(uint32_t index) const;
  // "" where the name is out of bounds.
  const char* symbol_name(const ElfW(Sym) & symbol) const;
  // Address of what the image itself defines under this name (the default version), or 0.
  uintptr_t find_defined(const char* name) const;
  // A symbol of the hash table with a value: a definition, or an executable's canonical stub (then
  // its section is SHN_UNDEF).
  const ElfW(Sym) * find_hashed(const char* name) const;
  // A symbol of the hash table, be it an import without a value.
  const ElfW(Sym) * find_symbol(const char* name) const;

  // Where a symbol name that ends in `suffix` begins in the string table, from `from` on; null at
  // the end. Linkers merge tails, so a suffix may also be a symbol of its own.
  const char* next_name_with_suffix(const char* suffix, const char* from) const;

  const char* soname() const;
  // The n-th DT_NEEDED name, or null.
  const char* needed(size_t n) const;

  size_t relocation_count() const { return rela_count_ + jmprel_count_; }
  // Before this one there are relative relocations only, which are most of a large image.
  size_t first_import_relocation() const { return rela_relative_; }
  // Fills `slot` from relocation n; false when it is not an import slot of a kind that may be
  // written, or does not lie inside the image.
  bool import_slot(size_t n, ImportSlot* slot) const;

 private:
  uintptr_t resolve(uintptr_t value, size_t length) const;
  size_t room_at(uintptr_t address) const;
  bool read_dynamic(const ElfW(Dyn) * dynamic, size_t count);
  void count_symbols();
  uint32_t gnu_lookup(const char* name) const;
  bool is_named(uint32_t index, const char* name) const;
  bool is_default_version(uint32_t index) const;

  uintptr_t base_ = 0, start_ = 0, end_ = 0, dynamic_ = 0;
  const ElfW(Phdr) * phdr_ = nullptr;
  size_t phdr_count_ = 0;
  const ElfW(Dyn) * dyn_ = nullptr;
  size_t dyn_count_ = 0;
  const ElfW(Sym) * symtab_ = nullptr;
  const char* strtab_ = nullptr;
  size_t strtab_size_ = 0;
  const uint32_t* gnu_hash_ = nullptr;
  const uint32_t* sysv_hash_ = nullptr;
  const ElfW(Half) * versions_ = nullptr;
  const ElfW(Rela) * rela_ = nullptr;
  const ElfW(Rela) * jmprel_ = nullptr;
  size_t rela_count_ = 0, rela_relative_ = 0, jmprel_count_ = 0;
  uint32_t symbol_count_ = 0, first_hashed_ = 0;
};

}  // namespace oom_guard
