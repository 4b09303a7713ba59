#include "callsites/provider.h"

#include <cstdlib>
#include <cstring>

namespace oom_guard {
namespace {

const ImageRecord* first_with_role(const ImageTable& images, ImageRole role) {
  for (unsigned i = 0; i < images.size(); ++i) {
    if (images[i].role == role) return &images[i];
  }
  return nullptr;
}

bool parse(const ImageRecord& record, ElfImage* image) {
  return image->parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
}

// An executable that is not linked with BIND_NOW resolves its slots at the first call. Our own
// imports lead there (or to the same functions), so one call of each is enough.
void bind_core_functions() {
  void* volatile block = malloc(16);
  block = realloc(block, 48);
  free(block);
  block = calloc(1, 16);
  free(block);
  void* aligned = nullptr;
  if (posix_memalign(&aligned, 64, 64) == 0) free(aligned);
}

// The value in this image's slot for a function, when it is bound to something outside the image.
void read_bound_slots(const ElfImage& image, const uintptr_t (&stubs)[kFnCount],
                      uintptr_t (&found)[kFnCount]) {
  for (size_t n = 0; n < image.relocation_count(); ++n) {
    ImportSlot slot;
    if (!image.import_slot(n, &slot)) continue;
    const ElfW(Sym)* symbol = image.symbol(slot.symbol);
    if (symbol == nullptr) continue;
    const char* name = image.symbol_name(*symbol);
    for (unsigned fn = 0; fn < kFnCount; ++fn) {
      if (strcmp(name, kFnNames[fn]) != 0) continue;
      uintptr_t value = *slot.address;
      bool own_stub = symbol->st_shndx == SHN_UNDEF && image.contains(value);
      bool defined_here = symbol->st_shndx != SHN_UNDEF && value == image.base() + symbol->st_value;
      bool usable =
          value != 0 && value != stubs[fn] && !own_stub && (defined_here || !image.contains(value));
      if (found[fn] == 0 && usable) found[fn] = value;
    }
  }
}

bool exports(const ElfImage& image, const char* name) {
  return image.find_defined(name) != 0;
}

bool exports_mallctl(const ElfImage& image) {
  for (const char* name = nullptr; (name = image.next_name_with_suffix("mallctl", name));) {
    if (exports(image, name)) return true;
  }
  return exports(image, "mallctl");
}

ProviderKind recognise(const ElfImage& image) {
  if (exports(image, "gnu_get_libc_version")) return ProviderKind::kGlibc;
  if (exports_mallctl(image)) return ProviderKind::kJemalloc;
  if (exports(image, "MallocExtension_GetNumericProperty")) return ProviderKind::kTcmalloc;
  if (exports(image, "mi_malloc")) return ProviderKind::kMimalloc;
  return ProviderKind::kOther;
}

}  // namespace

const char* describe(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::kUnknown:
      return "unknown";
    case ProviderKind::kGlibc:
      return "glibc";
    case ProviderKind::kJemalloc:
      return "jemalloc";
    case ProviderKind::kTcmalloc:
      return "tcmalloc";
    case ProviderKind::kMimalloc:
      return "mimalloc";
    case ProviderKind::kOther:
      return "other";
  }
  return "";
}

void find_provider(const ImageTable& images, Provider* provider) {
  const ImageRecord* executable = first_with_role(images, ImageRole::kExecutable);
  ElfImage image;
  if (executable == nullptr || !parse(*executable, &image)) {
    provider->problem = "the executable has no dynamic symbols (statically linked)";
    return;
  }
  for (unsigned fn = 0; fn < kFnCount; ++fn) {
    const ElfW(Sym)* symbol = image.find_hashed(kFnNames[fn]);
    if (symbol != nullptr && symbol->st_shndx == SHN_UNDEF) {
      provider->executable_stub[fn] = image.base() + symbol->st_value;
    }
  }

  bind_core_functions();
  uintptr_t found[kFnCount] = {};
  read_bound_slots(image, provider->executable_stub, found);
  for (unsigned fn = 0; fn < kFnCount; ++fn) {
    if (found[fn] == 0) found[fn] = image.find_defined(kFnNames[fn]);
  }
  const ImageRecord* libc = first_with_role(images, ImageRole::kLibc);
  if (libc != nullptr && parse(*libc, &image)) {
    read_bound_slots(image, provider->executable_stub, found);
  }
  const ImageRecord* self = first_with_role(images, ImageRole::kSelf);
  if (self != nullptr && parse(*self, &image)) {
    read_bound_slots(image, provider->executable_stub, found);
  }

  const ImageRecord* owner = images.find(found[index_of(Fn::malloc)]);
  if (found[index_of(Fn::malloc)] == 0 || owner == nullptr || !parse(*owner, &image)) {
    provider->problem = "no import slot shows where malloc is";
    return;
  }
  strcpy(provider->path, owner->path);
  provider->dynamic = owner->dynamic;
  provider->kind = recognise(image);
  provider->is_libc = provider->kind == ProviderKind::kGlibc;

  for (unsigned fn = 0; fn < kFnCount; ++fn) {
    // A function that lives elsewhere belongs to another allocator, or merely calls this one
    // (operator new of libstdc++): not ours to replace.
    uintptr_t address = image.contains(found[fn]) ? found[fn] : image.find_defined(kFnNames[fn]);
    provider->original[fn] = reinterpret_cast<AnyFn>(address);
  }
  for (Fn fn : kCoreFns) {
    if (provider->address(fn) == 0 ||
        (found[index_of(fn)] != 0 && found[index_of(fn)] != provider->address(fn))) {
      provider->problem = "malloc, calloc, realloc and free come from different images";
      return;
    }
  }
  provider->usable_size = reinterpret_cast<UsableSizeFn>(image.find_defined("malloc_usable_size"));
  if (provider->kind == ProviderKind::kJemalloc) {
    provider->size_of_request =
        reinterpret_cast<size_t (*)(size_t, int)>(image.find_defined("nallocx"));
    provider->mallctl = reinterpret_cast<MallctlFn>(image.find_defined("mallctl"));
  }
  if (provider->usable_size == nullptr) {
    provider->problem = "the provider of malloc has no malloc_usable_size";
  }
}

}  // namespace oom_guard
