#include "allocators/registry.h"

#include <cstdio>
#include <cstring>

#include "os/lock.h"
#include "os/os.h"

namespace oom_guard {
namespace {

bool parse(const ImageRecord& record, ElfImage* image) {
  return image->parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
}

}  // namespace

void Registry::start(const RegistryOptions& options) {
  if (started()) return;
  os::Lock lock(&lock_);
  if (started()) return;
  options_ = options;
  check_thread_numbers();
  images_.refresh();
  start_process_malloc();
  visit_images();
  if (callsites_) {
    // After all slots are written, so that what is booked and what the allocator says agree from
    // here on.
    set_baseline(&allocators_[0], [this](uint64_t* bytes) { return in_use(0, bytes); });
  }
  started_.store(true, std::memory_order_release);
}

void Registry::start_process_malloc() {
  find_provider(images_, &provider_);
  char name[Allocator::kMaxName];
  snprintf(name, sizeof(name), "malloc (%s)", describe(provider_.kind));
  add_allocator(name, provider_.path);

  ElfImage image;
  ImageRecord* provider = nullptr;
  for (unsigned i = 0; i < images_.size(); ++i) {
    ImageRecord& record = images_[i];
    if (is_provider(record) && parse(record, &image)) provider = &record;
  }
  if (provider != nullptr) {
    if (provider_.is_libc) {
      glibc_.find(image);
    } else if (provider->role != ImageRole::kExecutable) {
      provider->role = ImageRole::kProvider;
    }
    tcmalloc_property_ = reinterpret_cast<bool (*)(const char*, size_t*)>(
        image.find_defined("MallocExtension_GetNumericProperty"));
  }
  if (provider != nullptr && provider_.kind == ProviderKind::kJemalloc &&
      Jemalloc::find(image, &jemallocs_[0])) {
    is_jemalloc_[0] = true;
    count_jemalloc(0, provider, image);
  } else {
    count_by_callsites(0, provider, image);
  }
  publish_allocator();
}

// Counts allocator `index` at the slots of its callers: every image for the process malloc, its own
// image for an embedded one.
bool Registry::count_by_callsites(unsigned index, ImageRecord* record, const ElfImage& image) {
  Allocator* allocator = &allocators_[index];
  if (!options_.patch) {
    allocator->note = "patching is switched off by the environment";
    return false;
  }
  if (index == 0) {
    callsites_ = patchers_[0].prepare(&images_, provider_);
    allocator->note = patchers_[0].problem();
    if (!callsites_) return false;
    allocator->shards = &wrapper_shards(0);
  } else {
    unsigned heap = embedded_heaps_ + 1;
    if (heap == kHeaps) {
      allocator->note = "too many allocators are counted at their call sites";
      return false;
    }
    Patcher& patcher = patchers_[heap];
    allocator->note = "";
    if (!patcher.prepare_embedded(heap, image, jemallocs_[index].prefix())) {
      allocator->note = patcher.problem();
      return false;
    }
    ++embedded_heaps_;
    allocator->shards = &wrapper_shards(heap);
    // Its slots are not those of the process malloc that the record tells of.
    ImageRecord own = *record;
    patcher.patch(images_, &own);
    if (own.patched == 0) {
      allocator->note = "it does not call itself through slots";
      return false;
    }
  }
  allocator->mechanism = Mechanism::kCallsites;
  return true;
}

// One mechanism for one jemalloc, never two. At call sites a preloaded one costs a sixth of what
// its hooks cost; an embedded one is counted exactly by its hooks whatever it does inside, and what
// it does is rarely allocation-bound.
void Registry::count_jemalloc(unsigned index, ImageRecord* record, const ElfImage& image) {
  Allocator* allocator = &allocators_[index];
  const Jemalloc& jemalloc = jemallocs_[index];
  auto by_hooks = [&] {
    if (!jemallocs_[index].install_hooks(allocator, &allocator->note)) return false;
    allocator->mechanism = Mechanism::kHooks;
    allocator->note = "";
    return true;
  };
  auto by_callsites = [&] {
    const char* why_not_before = allocator->note;
    if (count_by_callsites(index, record, image)) return true;
    if (why_not_before[0] != '\0') {
      snprintf(allocator->note_text, sizeof(allocator->note_text), "%s; %s", why_not_before,
               allocator->note);
      allocator->note = allocator->note_text;
    }
    return false;
  };
  bool counted = false;
  switch (options_.jemalloc) {
    case JemallocChoice::kAuto:
      counted = index == 0 ? by_callsites() || by_hooks() : by_hooks() || by_callsites();
      break;
    case JemallocChoice::kCallsites:
      counted = by_callsites() || by_hooks();
      break;
    case JemallocChoice::kHooks:
      counted = by_hooks() || by_callsites();
      break;
    case JemallocChoice::kStats:
      break;
  }
  uint64_t bytes = 0;
  if (!counted && jemalloc.in_use(&bytes)) {
    allocator->mechanism = Mechanism::kStats;
    allocator->baseline_known = true;
    allocator->sampled.store(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    if (options_.jemalloc == JemallocChoice::kStats) allocator->note = "sampled, as was asked for";
    return;
  }
  // Slots of the process malloc are still to be written; its baseline follows then.
  if (allocator->mechanism != Mechanism::kCallsites || index != 0) {
    set_baseline(allocator, [&](uint64_t* in_use) { return jemalloc.in_use(in_use); });
  }
}

void Registry::sample() {
  for (unsigned i = 0; i < allocator_count(); ++i) {
    uint64_t bytes = 0;
    if (allocators_[i].mechanism == Mechanism::kStats && in_use(i, &bytes)) {
      allocators_[i].sampled.store(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    }
  }
  sample_pages();
}

void Registry::sample_pages() {
  pages_.sample();
  for (unsigned i = 0; i < pages_.owner_count(); ++i) {
    if (pages_allocator_[i] == 0 && !pages_.owner(i).counts()) continue;
    os::Lock lock(&lock_);
    if (pages_allocator_[i] == 0 && !add_pages_allocator(i)) continue;
    Allocator& allocator = allocators_[pages_allocator_[i]];
    uint64_t bytes = pages_.owner(i).resident.load(std::memory_order_relaxed);
    allocator.sampled.store(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    if (pages_.lost_bytes(i) != 0) {
      allocator.note =
          "resident bytes, sampled; some of its maps found no room in the table of ranges";
    }
  }
}

// Reports an owner of pages as an allocator: when its image is recognised, or from the moment that
// it holds memory in bulk.
bool Registry::add_pages_allocator(unsigned owner) {
  const Pages::Owner& pages = pages_.owner(owner);
  const char* what = pages.allocator;
  for (unsigned i = 0; i < images_.size() && what == nullptr; ++i) {
    ElfImage image;
    if (strcmp(images_[i].path, pages.path) != 0) continue;
    ImageHold hold(images_[i]);
    if (hold.valid() && parse(images_[i], &image)) what = name_hidden_allocator(image, images_[i]);
  }
  const char* slash = strrchr(pages.path, '/');
  char name[Allocator::kMaxName];
  snprintf(name, sizeof(name), "%s (%s)", what != nullptr ? what : "unknown",
           slash != nullptr ? slash + 1 : pages.path);
  Allocator* allocator = add_allocator(name, pages.path);
  if (allocator == nullptr) return false;
  allocator->mechanism = Mechanism::kPages;
  allocator->note =
      pages.earlier != 0
          ? "resident bytes, sampled"
          : "resident bytes, sampled; of what it may have mapped before its slots were "
            "written nothing was found";
  pages_allocator_[owner] = allocator_count();
  publish_allocator();
  return true;
}

void Registry::retarget(SlotTarget target) {
  os::Lock lock(&lock_);
  if (!callsites_) return;
  patchers_[0].retarget(target);
  for (unsigned i = 0; i < images_.size(); ++i) images_[i].visited = false;
  visit_images();
}

void Registry::rescan() {
  if (!started() || forked_.load(std::memory_order_relaxed)) return;
  if (!images_.changed() && !recheck_.load(std::memory_order_relaxed) &&
      !busy_.load(std::memory_order_acquire)) {
    return;
  }
  os::Lock lock(&lock_);
  busy_.store(true, std::memory_order_release);
  recheck_.store(false, std::memory_order_relaxed);
  images_.refresh();
  visit_images();
  busy_.store(false, std::memory_order_release);
}

void Registry::forked() {
  lock_ = PTHREAD_MUTEX_INITIALIZER;
  busy_.store(false, std::memory_order_relaxed);
  forked_.store(true, std::memory_order_relaxed);
}

void Registry::visit_images() {
  generation_.fetch_add(1, std::memory_order_release);
  for (unsigned i = 0; i < images_.size(); ++i) {
    ImageRecord& record = images_[i];
    if (record.lazy && !record.rechecked) {
      // Another thread that was binding a stub while we wrote may have written after us.
      record.rechecked = true;
      record.visited = false;
    }
    if (record.visited) continue;
    // Our own image is patched like any other: the wrappers call the originals, never a slot, and
    // what libstdc++ allocates for us is freed here.
    if (record.role == ImageRole::kVdso || record.role == ImageRole::kLoader) {
      record.visited = true;
      continue;
    }
    ImageHold hold(record);
    if (!hold.valid()) {
      record.note = "it could not be held while its slots are written";
      continue;
    }
    record.note = "";
    if (callsites_) patchers_[0].patch(images_, &record);
    record.visited = true;
    if (record.lazy && !record.rechecked) recheck_.store(true, std::memory_order_relaxed);
    ElfImage image;
    if (!is_provider(record) && !record.pinned && parse(record, &image)) {
      adopt_jemalloc(&record, image, &hold);
      record.pinned = hold.pinned();
      // A jemalloc's maps are what is counted already.
      if (!record.pinned) adopt_pages(&record, image);
    }
  }
}

void Registry::adopt_jemalloc(ImageRecord* record, const ElfImage& image, ImageHold* hold) {
  Jemalloc found;
  if (!Jemalloc::find(image, &found)) return;
  char name[Allocator::kMaxName];
  snprintf(name, sizeof(name), "jemalloc (%s)", found.prefix());
  if (add_allocator(name, record->path) == nullptr) return;
  unsigned index = allocator_count();
  jemallocs_[index] = found;
  is_jemalloc_[index] = true;
  count_jemalloc(index, record, image);
  // We keep pointers into it, and it may keep hooks of ours.
  hold->pin();
  publish_allocator();
}

// The image is not pinned: nothing of it is called, and a reloaded one finds its owner by its path.
void Registry::adopt_pages(ImageRecord* record, const ElfImage& image) {
  if (!options_.patch) return;
  const char* note = "";
  if (!pages_.adopt(images_, record, image, &note)) {
    if (note[0] != '\0') record->note = note;
    return;
  }
  if (record->lazy && !record->rechecked) recheck_.store(true, std::memory_order_relaxed);
  for (unsigned i = 0; i < pages_.owner_count(); ++i) {
    const Pages::Owner& owner = pages_.owner(i);
    if (owner.counts() && pages_allocator_[i] == 0) add_pages_allocator(i);
  }
}

Allocator* Registry::add_allocator(const char* name, const char* owner) {
  unsigned index = allocator_count();
  if (index == kMaxAllocators) return nullptr;
  Allocator* allocator = &allocators_[index];
  snprintf(allocator->name, sizeof(allocator->name), "%s", name);
  snprintf(allocator->owner, sizeof(allocator->owner), "%s", owner);
  allocator->mechanism = Mechanism::kNone;
  allocator->shards = &hook_shards_[index];
  allocator->note = "";
  return allocator;
}

int64_t Registry::live() const {
  int64_t live = 0;
  for (unsigned i = 0; i < allocator_count(); ++i) {
    if (allocators_[i].mechanism != Mechanism::kNone) live += allocators_[i].live();
  }
  return live;
}

bool Registry::in_use(unsigned i, uint64_t* bytes) const {
  if (is_jemalloc_[i]) return jemallocs_[i].in_use(bytes);
  if (i != 0) return false;
  if (provider_.is_libc) return glibc_.in_use(bytes);
  size_t value = 0;
  if (tcmalloc_property_ != nullptr &&
      tcmalloc_property_("generic.current_allocated_bytes", &value)) {
    *bytes = value;
    return true;
  }
  return false;
}

void Registry::release_free_memory() const {
  if (provider_.is_libc) glibc_.trim();
  for (unsigned i = 0; i < allocator_count(); ++i) {
    if (is_jemalloc_[i]) jemallocs_[i].purge();
  }
}

void Registry::each_image(void (*visit)(void*, const ImageRecord&), void* context) {
  os::Lock lock(&lock_);
  for (unsigned i = 0; i < images_.size(); ++i) visit(context, images_[i]);
}

}  // namespace oom_guard
