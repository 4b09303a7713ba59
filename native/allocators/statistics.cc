#include "allocators/statistics.h"

#include <link.h>

#include <cstdio>
#include <cstring>

#include "callsites/elf_image.h"

namespace oom_guard {
namespace {

using Mallctl = int (*)(const char*, void*, size_t*, void*, size_t);

Mallctl find_mallctl(const char* image, const char* prefix) {
  struct Search {
    const char* image;
    char name[64];
    Mallctl found;
  } search = {image, "", nullptr};
  int length = snprintf(search.name, sizeof(search.name), "%smallctl", prefix);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(search.name)) return nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* opaque) {
        auto* to = static_cast<Search*>(opaque);
        if (strcmp(info->dlpi_name, to->image) != 0) return 0;
        ElfImage elf;
        if (elf.parse(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum) != ImageError::kNone) {
          return 0;
        }
        to->found = reinterpret_cast<Mallctl>(elf.find_defined(to->name));
        return to->found != nullptr ? 1 : 0;
      },
      &search);
  return search.found;
}

}  // namespace

bool read_jemalloc_statistics(const char* image, const char* prefix, JemallocStatistics* out) {
  // Called only after the loader's lock was given back: jemalloc may load or allocate.
  Mallctl mallctl = find_mallctl(image, prefix);
  if (mallctl == nullptr) return false;
  uint64_t epoch = 1;
  size_t size = sizeof(epoch);
  if (mallctl("epoch", &epoch, &size, &epoch, sizeof(epoch)) != 0) return false;
  auto read = [mallctl](const char* name, uint64_t* value) {
    size_t bytes = 0;
    size_t bytes_size = sizeof(bytes);
    if (mallctl(name, &bytes, &bytes_size, nullptr, 0) != 0) return false;
    *value = bytes;
    return true;
  };
  return read("stats.resident", &out->resident) && read("stats.mapped", &out->mapped) &&
         read("stats.retained", &out->retained);
}

}  // namespace oom_guard
