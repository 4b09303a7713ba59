// Slots that were patched are written over: by the loader, which binds late what another thread had
// begun to call, or by another tool that hooks functions. The first is written anew, the second is
// left and reported.
#include <sys/mman.h>

#include <initializer_list>

#include "books.h"
#include "callsites/elf_image.h"

namespace {

using oom_guard::ElfImage;

// The only slot of an image for a function.
uintptr_t* slot_of(const char* library, const char* name) {
  struct Search {
    const char *library, *name;
    uintptr_t* slot;
  } search = {library, name, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* opaque) {
        auto* to = static_cast<Search*>(opaque);
        ElfImage image;
        if (strstr(info->dlpi_name, to->library) == nullptr ||
            image.parse(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum) !=
                oom_guard::ImageError::kNone) {
          return 0;
        }
        for (size_t n = 0; n < image.relocation_count(); ++n) {
          oom_guard::ImportSlot slot;
          if (!image.import_slot(n, &slot)) continue;
          if (strcmp(image.symbol_name(*image.symbol(slot.symbol)), to->name) == 0) {
            to->slot = slot.address;
          }
        }
        return 0;
      },
      &search);
  CHECK(search.slot != nullptr, "no slot for %s in %s", name, library);
  return search.slot;
}

uintptr_t read(uintptr_t* slot) {
  return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

void write(uintptr_t* slot, uintptr_t value) {
  const auto size = static_cast<uintptr_t>(getpagesize());
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~(size - 1));
  CHECK(mprotect(page, size, PROT_READ | PROT_WRITE) == 0, "mprotect");
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
}

template <class Condition>
bool within_seconds(Condition condition) {
  for (int tries = 0; tries < 500; ++tries) {
    if (condition()) return true;
    usleep(10000);
  }
  return false;
}

void* foreign_calloc(size_t count, size_t size) {
  return calloc(count, size);
}

void bound_late(const char* library, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    uintptr_t* slot = slot_of(library, name);
    const uintptr_t wrapper = read(slot);
    uintptr_t original = reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, name));
    if (original == 0) {
      void* handle = dlopen(beside(library), RTLD_NOLOAD | RTLD_LAZY);
      original = reinterpret_cast<uintptr_t>(dlsym(handle, name));
    }
    CHECK(original != 0 && wrapper != original, "the slot for %s was not patched", name);
    write(slot, original);
    CHECK(within_seconds([&] { return read(slot) == wrapper; }), "%s of %s is not counted any more",
          name, library);
  }
}

}  // namespace

int main() {
  start_counting();
  void* user = load("libbound_user.so", RTLD_NOW);
  void* inner = load("libembedded_jemalloc.so", RTLD_NOW);
  engine().rescan();
  bound_late("libbound_user.so", {"malloc", "free", "calloc"});

  oom_guard::EngineAllocator allocator;
  CHECK(find_allocator("inner_je_", &allocator) &&
            mechanism_of(allocator) == oom_guard::Mechanism::kCallsites,
        "the jemalloc inside is not counted at its call sites");
  bound_late("libembedded_jemalloc.so", {"malloc", "inner_je_malloc", "inner_je_free"});
  find_allocator("inner_je_", &allocator);
  const int64_t before = allocator.live;
  void* block = symbol<void*(size_t)>(inner, "inner_get")(1000);
  find_allocator("inner_je_", &allocator);
  CHECK(allocator.live == before + 1000, "%d bytes", static_cast<int>(allocator.live - before));
  symbol<void(void*)>(inner, "inner_put")(block);
  find_allocator("inner_je_", &allocator);
  CHECK(allocator.live == before, "%d bytes", static_cast<int>(allocator.live - before));

  uintptr_t* slot = slot_of("libbound_user.so", "calloc");
  const auto foreign = reinterpret_cast<uintptr_t>(&foreign_calloc);
  write(slot, foreign);
  auto reported = [] {
    return report_of("libbound_user.so").skips("calloc", "something else wrote there");
  };
  CHECK(within_seconds(reported), "nothing is said of another tool");
  CHECK(report_of("libbound_user.so").patched >= 2, "the other slots are not counted any more");
  CHECK(read(slot) == foreign, "the other tool's work was undone");
  CHECK(symbol<int(size_t)>(user, "user_work")(1000), "calloc");
  // It is said for as long as it is so.
  bound_late("libbound_user.so", {"malloc"});
  CHECK(reported(), "nothing is said of it any more");
  return 0;
}
