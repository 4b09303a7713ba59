// Lays the fuzzer's bytes out as the loader would lay out an ELF file, with everything in them but
// the segments' places untrusted, and walks all that ElfImage offers. AddressSanitizer watches the
// gaps between the segments and what lies around them. (heaptrack commits 6e31841, ab2a822,
// 225639c: images without a symbol table, indices that lead astray.)
#include <elf.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "callsites/elf_image.h"
#include "callsites/family.h"

using oom_guard::ElfImage;
using oom_guard::ImageError;
using oom_guard::ImportSlot;

namespace {

constexpr size_t kMaxImage = 1 << 20;
constexpr size_t kMaxHeaders = 16;

volatile uintptr_t g_sink;
void use(uintptr_t value) {
  g_sink = value;
}
void read(const char* text) {
  use(strlen(text));
}

void walk(const ElfImage& image) {
  use(image.contains(image.start()) + image.end());
  uintptr_t first, last;
  image.relro(4096, &first, &last);
  read(image.soname());
  for (size_t n = 0; const char* name = image.needed(n); ++n) read(name);

  for (uint32_t i = 0; i < image.symbol_count(); ++i) {
    const ElfW(Sym)* symbol = image.symbol(i);
    if (symbol == nullptr) break;
    use(symbol->st_value);
    read(image.symbol_name(*symbol));
  }
  use(image.first_hashed_symbol());
  for (const char* name : oom_guard::kFnNames) {
    const ElfW(Sym)* symbol = image.find_symbol(name);
    if (symbol != nullptr) use(symbol->st_info);
    use(image.find_defined(name));
    symbol = image.find_hashed(name);
    if (symbol != nullptr) use(symbol->st_shndx);
  }
  for (const char* suffix : {"mallctl", "y", ""}) {
    const char* name = nullptr;
    for (int n = 0; n < 100 && (name = image.next_name_with_suffix(suffix, name)) != nullptr; ++n) {
      read(name);
      use(image.find_defined(name));
    }
  }
  for (size_t n = 0; n < image.relocation_count(); ++n) {
    ImportSlot slot;
    if (!image.import_slot(n, &slot)) continue;
    use(*slot.address);
    const ElfW(Sym)* symbol = image.symbol(slot.symbol);
    if (symbol != nullptr) read(image.symbol_name(*symbol));
  }
}

// glibc adds the base to these when it has loaded an image; musl leaves them.
void relocate(char* memory, size_t size, const ElfW(Phdr) & dynamic) {
  if (dynamic.p_vaddr % alignof(ElfW(Dyn)) != 0 || dynamic.p_vaddr > size ||
      dynamic.p_memsz > size - dynamic.p_vaddr) {
    return;
  }
  auto* entry = reinterpret_cast<ElfW(Dyn)*>(memory + dynamic.p_vaddr);
  for (size_t n = 0; n < dynamic.p_memsz / sizeof(*entry) && entry[n].d_tag != DT_NULL; ++n) {
    switch (entry[n].d_tag) {
      case DT_SYMTAB:
      case DT_STRTAB:
      case DT_RELA:
      case DT_JMPREL:
      case DT_GNU_HASH:
      case DT_HASH:
      case DT_VERSYM:
        entry[n].d_un.d_ptr += reinterpret_cast<uintptr_t>(memory);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ElfW(Ehdr) header;
  if (size < sizeof(header)) return 0;
  memcpy(&header, data, sizeof(header));
  if (header.e_phoff > size) return 0;
  size_t count = (size - header.e_phoff) / sizeof(ElfW(Phdr));
  if (count > header.e_phnum) count = header.e_phnum;
  if (count > kMaxHeaders) count = kMaxHeaders;
  if (count == 0) return 0;
  auto* headers = static_cast<ElfW(Phdr)*>(malloc(count * sizeof(ElfW(Phdr))));
  memcpy(headers, data + header.e_phoff, count * sizeof(ElfW(Phdr)));

  // What the kernel would refuse to map is not there.
  size_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    ElfW(Phdr)& load = headers[i];
    if (load.p_type != PT_LOAD) continue;
    if (load.p_vaddr > kMaxImage || load.p_memsz > kMaxImage - load.p_vaddr) load.p_type = PT_NULL;
    if (load.p_type == PT_LOAD && load.p_vaddr + load.p_memsz > end)
      end = load.p_vaddr + load.p_memsz;
  }
  void* block = nullptr;
  if (end == 0 || posix_memalign(&block, 4096, end) != 0) {
    free(headers);
    return 0;
  }
  char* memory = static_cast<char*>(block);
  memset(memory, 0, end);
  const ElfW(Phdr)* dynamic = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& load = headers[i];
    if (load.p_type == PT_DYNAMIC) dynamic = &load;
    if (load.p_type != PT_LOAD || load.p_offset > size) continue;
    size_t length = load.p_filesz < load.p_memsz ? load.p_filesz : load.p_memsz;
    if (length > size - load.p_offset) length = size - load.p_offset;
    memcpy(memory + load.p_vaddr, data + load.p_offset, length);
  }
  if (dynamic != nullptr && header.e_ident[EI_NIDENT - 1] == 0) relocate(memory, end, *dynamic);
  ASAN_POISON_MEMORY_REGION(memory, end);
  for (size_t i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_LOAD) continue;
    ASAN_UNPOISON_MEMORY_REGION(memory + headers[i].p_vaddr, headers[i].p_memsz);
  }

  ElfImage image;
  if (image.parse(reinterpret_cast<uintptr_t>(memory), headers, count) == ImageError::kNone) {
    walk(image);
  }
  ASAN_UNPOISON_MEMORY_REGION(memory, end);
  free(block);
  free(headers);
  return 0;
}
