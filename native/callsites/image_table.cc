#include "callsites/image_table.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <cstring>
#include <initializer_list>

#include "callsites/elf_image.h"

namespace oom_guard {
namespace {

struct LoaderCounters {
  unsigned long long adds, subs;
};

// Stops at the first image: the counters are the same for all.
int read_counters(dl_phdr_info* info, size_t size, void* out) {
  auto* counters = static_cast<LoaderCounters*>(out);
  if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
    *counters = {info->dlpi_adds, info->dlpi_subs};
  }
  return 1;
}

LoaderCounters loader_counters() {
  LoaderCounters counters{0, 0};
  dl_iterate_phdr(read_counters, &counters);
  return counters;
}

uintptr_t dynamic_of(const dl_phdr_info& info) {
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) return info.dlpi_addr + info.dlpi_phdr[i].p_vaddr;
  }
  return 0;
}

// libstdc++ defines operator new too, but it is no allocator: it calls malloc. Only the C names
// tell of one.
bool defines_malloc(const ElfImage& image) {
  for (const char* name : {"malloc", "free", "calloc", "realloc", "posix_memalign"}) {
    if (image.find_defined(name) != 0) return true;
  }
  return false;
}

ImageRole role_of(const ImageRecord& record, const ElfImage& image) {
  if (reinterpret_cast<uintptr_t>(record.phdr) == getauxval(AT_PHDR)) return ImageRole::kExecutable;
  if (record.contains(getauxval(AT_SYSINFO_EHDR))) return ImageRole::kVdso;
  if (record.contains(getauxval(AT_BASE))) return ImageRole::kLoader;
  if (record.contains(reinterpret_cast<uintptr_t>(&read_counters))) return ImageRole::kSelf;
  if (image.find_defined("gnu_get_libc_version") != 0) return ImageRole::kLibc;
  return ImageRole::kOther;
}

// Whether every slot that we have written still holds that. A slot outside the segments belongs to
// another file under the same name.
bool reads_as_written(const ImageRecord& record, const dl_phdr_info& info) {
  auto in_segment = [&info](uintptr_t address) {
    for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      if (segment.p_type == PT_LOAD &&
          address - (info.dlpi_addr + segment.p_vaddr) < segment.p_memsz) {
        return true;
      }
    }
    return false;
  };
  for (unsigned i = 0; i < record.written_count; ++i) {
    const WrittenSlot& slot = record.written[i];
    if (!in_segment(reinterpret_cast<uintptr_t>(slot.address)) ||
        __atomic_load_n(slot.address, __ATOMIC_RELAXED) != slot.value) {
      return false;
    }
  }
  return true;
}

}  // namespace

const char* describe(SlotReason reason) {
  switch (reason) {
    case SlotReason::kForeign:
      return "bound to another allocator";
    case SlotReason::kExecutableStub:
      return "counted through the executable";
    case SlotReason::kNull:
      return "weak and undefined";
    case SlotReason::kUncertainStub:
      return "bound lazily, and a needed library brings a malloc of its own";
    case SlotReason::kNotWrapped:
      return "not a function of the provider of malloc";
    case SlotReason::kProtected:
      return "its page could not be made writable";
    case SlotReason::kOverwritten:
      return "something else wrote there since; counted only if that calls on";
  }
  return "";
}

bool ImageTable::changed() const {
  LoaderCounters now = loader_counters();
  return now.adds != adds_.load(std::memory_order_acquire) ||
         now.subs != subs_.load(std::memory_order_acquire);
}

bool ImageTable::refresh() {
  for (unsigned i = 0; i < size_; ++i) records_[i].present = false;
  cursor_ = 0;
  left_out_ = 0;
  refreshed_differs_ = false;
  // Before the walk: what is loaded after it counts as a change next time.
  LoaderCounters now = loader_counters();
  dl_iterate_phdr(&ImageTable::visit, this);
  adds_.store(now.adds, std::memory_order_release);
  subs_.store(now.subs, std::memory_order_release);
  unsigned kept = 0;
  for (unsigned i = 0; i < size_; ++i) {
    if (!records_[i].present) continue;
    if (kept != i) records_[kept] = records_[i];
    ++kept;
  }
  if (kept != size_) refreshed_differs_ = true;
  size_ = kept;
  return refreshed_differs_;
}

// Records stand in the order of their serials: new ones are put at the end.
unsigned ImageTable::first_after(uint64_t serial) const {
  unsigned from = 0, to = size_;
  while (from < to) {
    unsigned middle = (from + to) / 2;
    if (records_[middle].serial > serial) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

const ImageRecord* ImageTable::next_unvisited(uint64_t after) const {
  for (unsigned i = first_after(after); i < size_; ++i) {
    if (!records_[i].visited) return &records_[i];
  }
  return nullptr;
}

bool ImageTable::any_to_visit() const {
  for (unsigned i = 0; i < size_; ++i) {
    if (!records_[i].visited && !records_[i].unheld) return true;
  }
  return false;
}

ImageRecord* ImageTable::find_serial(uint64_t serial) {
  unsigned i = first_after(serial - 1);
  return i < size_ && records_[i].serial == serial ? &records_[i] : nullptr;
}

int ImageTable::visit(dl_phdr_info* info, size_t, void* self) {
  static_cast<ImageTable*>(self)->visit(*info);
  return 0;
}

// Runs under the loader's lock: no allocation, no logging, no lock.
void ImageTable::visit(const dl_phdr_info& info) {
  uintptr_t dynamic = dynamic_of(info);
  const char* path = info.dlpi_name != nullptr ? info.dlpi_name : "";
  // The loader lists images in the same order every time, so the record sought is nearly always
  // the next one.
  for (unsigned probe = 0; probe < size_; ++probe) {
    unsigned i = (cursor_ + probe) % size_;
    ImageRecord& record = records_[i];
    if (record.present || record.base != info.dlpi_addr || record.dynamic != dynamic ||
        strcmp(record.path, path) != 0) {
      continue;
    }
    record.present = true;
    cursor_ = i + 1;
    record.phdr = info.dlpi_phdr;
    // The image cannot go away while this lock is held, so its memory can be read.
    record.unheld = false;
    if (record.visited && !reads_as_written(record, info)) {
      refreshed_differs_ = true;
      record.visited = false;
    }
    return;
  }
  size_t length = strlen(path);
  if (size_ == kMaxImages || length >= ImageRecord::kMaxPath) {
    ++left_out_;
    return;
  }
  ImageRecord& record = records_[size_++];
  memset(static_cast<void*>(&record), 0, sizeof(record));
  refreshed_differs_ = true;
  record.serial = ++last_serial_;
  record.base = info.dlpi_addr;
  record.dynamic = dynamic;
  record.phdr = info.dlpi_phdr;
  record.phdr_count = info.dlpi_phnum;
  memcpy(record.path, path, length + 1);
  record.present = true;
  record.note = "";
  ElfImage image;
  bool readable = image.parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
  record.start = image.start();
  record.end = image.end();
  if (!readable) image = ElfImage();
  record.role = role_of(record, image);
  record.visited = record.is_left_alone();
  if (readable) {
    record.brings_allocator = defines_malloc(image);
    const char* soname = image.soname();
    if (strlen(soname) < ImageRecord::kMaxSoname) strcpy(record.soname, soname);
  }
}

const ImageRecord* ImageTable::find(uintptr_t address) const {
  for (unsigned i = 0; i < size_; ++i) {
    if (records_[i].contains(address)) return &records_[i];
  }
  return nullptr;
}

ImageHold::ImageHold(const ImageRecord& record) {
  void* handle = dlopen(record.path[0] != '\0' ? record.path : nullptr, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) {
    dlerror();  // drop the message: the caller's own next dlerror() must not see it
    return;
  }
  const auto* map = static_cast<const link_map*>(handle);
  if (map->l_addr == record.base && reinterpret_cast<uintptr_t>(map->l_ld) == record.dynamic) {
    handle_ = handle;
  } else {
    dlclose(handle);
  }
}

uintptr_t ImageHold::resolve(const char* name) const {
  uintptr_t address = reinterpret_cast<uintptr_t>(dlsym(handle_, name));
  if (address == 0) dlerror();
  return address;
}

ImageHold::~ImageHold() {
  if (handle_ != nullptr && !pinned_) dlclose(handle_);
}

}  // namespace oom_guard
