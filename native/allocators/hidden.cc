#include "allocators/hidden.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/os.h"

namespace oom_guard {
namespace {

// More data than this no image has beside its tables of constants; it bounds what is read.
constexpr size_t kMaxData = 4 << 20;
constexpr size_t kMaxFile = 256 << 20;

// Calls visit(first, last, last_in_file) for each writable segment, without what became read-only
// after relocation: addresses, the second one past what comes from the file, the third past the
// end.
template <class Visit>
bool each_data_segment(const ElfImage& image, const ImageRecord& record, Visit visit) {
  uintptr_t relro_first = 0, relro_last = 0;
  image.relro(os::page_size(), &relro_first, &relro_last);
  for (size_t i = 0; i < record.phdr_count; ++i) {
    const ElfW(Phdr)& segment = record.phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    uintptr_t from = image.base() + segment.p_vaddr;
    uintptr_t file_end = from + segment.p_filesz, end = from + segment.p_memsz;
    if (relro_first <= from && relro_last > from) from = relro_last;
    from = (from + 7) & ~uintptr_t{7};
    if (end > from + kMaxData) end = from + kMaxData;
    if (from >= end || !image.contains(from, end - from)) continue;
    if (visit(from, std::max(from, std::min(file_end, end)), end)) return true;
  }
  return false;
}

// Other images' data: a sanitizer keeps redzones there that are none of our business.
__attribute__((no_sanitize("address"))) uint32_t read32(uintptr_t at) {
  return *reinterpret_cast<const volatile uint32_t*>(at);
}

__attribute__((no_sanitize("address"))) uintptr_t read_word(uintptr_t at) {
  return *reinterpret_cast<const volatile uintptr_t*>(at);
}

// mimalloc's options, in all versions: { long value; int state; int number; const char* name; }
// and, since 1.8 and 2.1, a second name. The numbers count up from 0, and the first is
// "show_errors".
constexpr size_t kOptionNumber = 12, kOptionName = 16;

bool is_option_table(const ElfImage& image, uintptr_t at, uintptr_t end, size_t stride) {
  constexpr uint32_t kOptions = 12;  // every version has more
  if (end - at < kOptions * stride) return false;
  for (uint32_t i = 0; i < kOptions; ++i) {
    uintptr_t entry = at + i * stride;
    if (read32(entry + kOptionNumber) != i || !image.contains(read_word(entry + kOptionName)))
      return false;
  }
  constexpr char kFirst[] = "show_errors";
  uintptr_t name = read_word(at + kOptionName);
  return image.contains(name, sizeof(kFirst)) &&
         memcmp(reinterpret_cast<const void*>(name), kFirst, sizeof(kFirst)) == 0;
}

struct OptionTable {
  uintptr_t at = 0, end = 0;
  size_t stride = 0;
};

bool find_option_table(const ElfImage& image, const ImageRecord& record, OptionTable* out) {
  return each_data_segment(image, record, [&](uintptr_t from, uintptr_t file_end, uintptr_t) {
    for (uintptr_t at = from; at + 64 <= file_end; at += 8) {
      // The second entry's number first: it is 1 and rarely so by chance.
      for (size_t stride : {size_t{32}, size_t{24}}) {
        if (read32(at + stride + kOptionNumber) == 1 &&
            is_option_table(image, at, file_end, stride)) {
          *out = {at, file_end, stride};
          return true;
        }
      }
    }
    return false;
  });
}

// The addresses in an image's data that may lie in an arena: which blocks of 32 MiB they name.
struct Blocks {
  static constexpr unsigned kShift = 25, kMax = 1024;
  uintptr_t block[kMax];
  unsigned size = 0;

  void add(uintptr_t address) {
    uintptr_t wanted = address >> kShift;
    // Data that points somewhere points there often.
    if (size != 0 && block[size - 1] == wanted) return;
    if (size < kMax) block[size++] = wanted;
  }
  void sort() {
    std::sort(block, block + size);
    size = static_cast<unsigned>(std::unique(block, block + size) - block);
  }
  bool any_in(uintptr_t from, uintptr_t to) const {
    const uintptr_t* at = std::lower_bound(block, block + size, from >> kShift);
    return at != block + size && *at <= (to - 1) >> kShift;
  }
};

// mimalloc asks for its arenas between 2 and 32 TiB, where the kernel itself puts nothing, and V8
// nothing so large and so even; what it lets the kernel place is a whole arena of at least a GiB.
// glibc's arenas are of 64 MiB and placed by the kernel.
bool looks_like_arena(const os::Mapping& mapping) {
  constexpr uintptr_t kEven = uintptr_t{32} << 20, kAligned = 64 << 10;
  constexpr uintptr_t kHintFirst = uintptr_t{2} << 40, kHintLast = uintptr_t{32} << 40;
  constexpr uintptr_t kWhole = uintptr_t{1} << 30;
  uintptr_t size = mapping.to - mapping.from;
  if (!mapping.anonymous || size == 0 || size % kEven != 0 || mapping.from % kAligned != 0) {
    return false;
  }
  return size >= kWhole || (mapping.from >= kHintFirst && mapping.to <= kHintLast);
}

}  // namespace

const char* recognise_hidden_allocator(const ElfImage& image, const ImageRecord& record) {
  OptionTable table;
  return find_option_table(image, record, &table) ? "mimalloc" : nullptr;
}

// From the file: an image in memory would have to be held, and whoever holds it waits for loads.
const char* name_hidden_allocator(const char* path) {
  static const struct {
    const char* text;
    const char* name;
  } kEvidence[] = {
      {"mimalloc: ", "mimalloc"},
      {"<jemalloc>", "jemalloc"},
      {"TCMALLOC_", "tcmalloc"},
  };
  constexpr size_t kLongest = 16, kAtATime = 32768;
  const int saved = errno;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    errno = saved;
    return nullptr;
  }
  const char* found = nullptr;
  char text[kLongest + kAtATime];
  size_t kept = 0, seen = 0;
  while (found == nullptr && seen < kMaxFile) {
    ssize_t got = read(file, text + kept, kAtATime);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    seen += static_cast<size_t>(got);
    const size_t size = kept + static_cast<size_t>(got);
    for (const auto& evidence : kEvidence) {
      if (found == nullptr && memmem(text, size, evidence.text, strlen(evidence.text)) != nullptr) {
        found = evidence.name;
      }
    }
    // What begins at the end of this piece may go on in the next one.
    kept = std::min(size, kLongest);
    memmove(text, text + size - kept, kept);
  }
  close(file);
  errno = saved;
  return found;
}

uint64_t find_earlier_maps(const ElfImage& image, const ImageRecord& record, unsigned owner,
                           PageRanges* ranges) {
  int saved = errno;
  Blocks blocks;
  each_data_segment(image, record, [&](uintptr_t from, uintptr_t, uintptr_t end) {
    for (uintptr_t at = from; at + 8 <= end; at += 8) {
      uintptr_t value = read_word(at);
      // Beyond a gigabyte and within what a process can have; a small number is no address.
      bool plausible = value >> 30 != 0 && value >> 48 == 0;
      if (plausible && !(value >= record.start && value < record.end)) blocks.add(value);
    }
    return false;
  });
  blocks.sort();
  uint64_t noted = 0;
  if (blocks.size != 0) {
    struct Search {
      const Blocks& blocks;
      unsigned owner;
      PageRanges* ranges;
      uint64_t noted;
    } search = {blocks, owner, ranges, 0};
    os::each_mapping(
        [](void* context, const os::Mapping& mapping) {
          auto* to = static_cast<Search*>(context);
          if (!looks_like_arena(mapping) || !to->blocks.any_in(mapping.from, mapping.to) ||
              to->ranges->covers(mapping.from)) {
            return;
          }
          to->ranges->record(to->owner, mapping.from, mapping.to - mapping.from);
          to->noted += mapping.to - mapping.from;
        },
        &search);
    noted = search.noted;
  }
  errno = saved;
  return noted;
}

}  // namespace oom_guard
