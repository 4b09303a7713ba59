#include "allocators/registry.h"

#include <cstdio>
#include <cstring>

#include "os/lock.h"
#include "os/os.h"

namespace oom_guard {
namespace {

constexpr char kNoRoom[] =
    "an allocator in it is not counted: there are 40 already, and room for no more";
static_assert(Registry::kMaxAllocators == 40, "the note says how many");

constexpr char kNotHeld[] = "it could not be held while its slots are written";

bool parse(const ImageRecord& record, ElfImage* image) {
  return image->parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
}

}  // namespace

void Registry::start(const RegistryOptions& options) {
  if (started()) return;
  options_ = options;
  check_thread_numbers();
  images_.refresh();
  start_process_malloc();
  if (options_.patch) pages_.prepare(images_);
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
    embedded_in_[++embedded_heaps_] = record->dynamic;
    allocator->shards = &wrapper_shards(heap);
    if (patcher.patch_embedded(images_, record) == 0) {
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
    const char* why_not = "";
    bool installed = jemallocs_[index].install_hooks(allocator, &why_not);
    allocator->note = why_not;
    if (installed) allocator->mechanism = Mechanism::kHooks;
    return installed;
  };
  auto by_callsites = [&] {
    const char* why_not_before = allocator->note;
    if (count_by_callsites(index, record, image)) return true;
    if (why_not_before[0] != '\0') {
      snprintf(allocator->note_text, sizeof(allocator->note_text), "%s; %s", why_not_before,
               allocator->note.load());
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
    if (allocators_[i].mechanism == Mechanism::kStats) in_use(i, &bytes);
  }
  sample_pages();
}

bool Registry::samples() const {
  if (pages_.owner_count() != 0) return true;
  for (unsigned i = 0; i < allocator_count(); ++i) {
    if (allocators_[i].samples()) return true;
  }
  return false;
}

void Registry::sample_pages() {
  pages_.sample();
  for (unsigned i = 0; i < pages_.owner_count(); ++i) {
    const Pages::Owner& owner = pages_.owner(i);
    if (pages_allocator_[i] == 0) {
      if (!owner.counts()) continue;
      const bool named = owner.allocator != nullptr || allocator_count() == kMaxAllocators;
      const char* name = named ? owner.allocator : name_hidden_allocator(owner.path);
      os::Lock lock(&lock_);
      if (pages_allocator_[i] == 0 && !add_pages_allocator(i, name)) continue;
    }
    Allocator& allocator = allocators_[pages_allocator_[i]];
    allocator.sampled.store(static_cast<int64_t>(owner.resident.load(std::memory_order_relaxed)),
                            std::memory_order_relaxed);
    if (pages_.lost_bytes(i) != 0) {
      allocator.note =
          "resident bytes, sampled; some of its maps found no room in the table of ranges";
    }
  }
}

// Reports an owner of pages as an allocator: when its image is recognised, or from the moment that
// it holds memory in bulk. Under the lock.
bool Registry::add_pages_allocator(unsigned owner, const char* name) {
  const Pages::Owner& pages = pages_.owner(owner);
  const char* slash = strrchr(pages.path, '/');
  char title[Allocator::kMaxName];
  snprintf(title, sizeof(title), "%s (%s)", name != nullptr ? name : "unknown",
           slash != nullptr ? slash + 1 : pages.path);
  Allocator* allocator = add_allocator(title, pages.path);
  if (allocator == nullptr) {
    for (unsigned i = 0; i < images_.size(); ++i) {
      ImageRecord& record = images_[i];
      if (strcmp(record.path, pages.path) != 0 || record.note == kNoRoom) continue;
      record.note = kNoRoom;
      changed();
    }
    return false;
  }
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
  {
    os::Lock lock(&lock_);
    if (callsites_) patchers_[0].retarget(target);
    for (unsigned heap = 1; heap <= embedded_heaps_; ++heap) patchers_[heap].retarget(target);
    for (unsigned i = 0; i < allocator_count(); ++i) {
      jemallocs_[i].switch_hooks(target != SlotTarget::kOriginal);
    }
    for (unsigned i = 0; i < images_.size(); ++i) {
      images_[i].visited = images_[i].is_left_alone();
    }
  }
  visit_images();
}

bool Registry::is_behind() const {
  return images_.changed() || pending_.load(std::memory_order_acquire);
}

void Registry::rescan() {
  if (started() && !is_forked() && is_behind()) visit_images();
}

void Registry::recheck() {
  if (started() && !is_forked()) visit_images();
}

void Registry::forked() {
  lock_ = PTHREAD_MUTEX_INITIALIZER;
  pending_.store(false, std::memory_order_relaxed);
  forked_.store(true, std::memory_order_relaxed);
}

// Several threads may be here at once. Each goes through all images that are to be visited, so none
// returns before those are written that were loaded when it came.
void Registry::visit_images() {
  {
    os::Lock lock(&lock_);
    // Before the table is up to date: from then on this is what tells others to come here too.
    pending_.store(true, std::memory_order_release);
    if (images_.refresh()) changed();
  }
  bool look_again = false;
  ImageRecord copy;
  for (uint64_t last = 0; next_to_visit(last, &copy); last = copy.serial) {
    // Waits for a load that is going on, and ends after the lock.
    ImageHold hold(copy);
    ElfImage image;
    MapPatcher::Bindings bindings;
    const bool maps = options_.patch && hold.valid() && parse(copy, &image) &&
                      Pages::may_hide_allocator(copy, image);
    if (maps) bindings.read(hold);
    os::Lock lock(&lock_);
    ImageRecord* record = images_.find_serial(copy.serial);
    if (record == nullptr || record->visited) continue;
    visit(record, &hold, maps ? &bindings : nullptr);
    // Another thread that was binding a stub while we wrote may have written after us.
    look_again |= record->lazy;
  }
  os::Lock lock(&lock_);
  pending_.store(look_again || images_.any_to_visit(), std::memory_order_release);
}

bool Registry::next_to_visit(uint64_t after, ImageRecord* out) {
  os::Lock lock(&lock_);
  const ImageRecord* next = images_.next_unvisited(after);
  if (next != nullptr) *out = *next;
  return next != nullptr;
}

// Under the lock. `bindings` is null for an image that hides no allocator.
void Registry::visit(ImageRecord* record, ImageHold* hold, const MapPatcher::Bindings* bindings) {
  if (!hold->valid()) {
    // Or it is gone. Whoever comes after another load at its place tries for himself.
    record->unheld = true;
    if (record->note != kNotHeld) changed();
    record->note = kNotHeld;
    return;
  }
  changed();
  record->visited = true;
  const ImageRecord before = *record;
  record->written_count = 0;
  record->lazy = false;
  record->note = "";
  // Our own image is patched like any other: the wrappers call the originals, never a slot, and
  // what libstdc++ allocates for us is freed here.
  if (callsites_) patchers_[0].patch(images_, record, before);
  for (unsigned heap = 1; heap <= embedded_heaps_; ++heap) {
    if (embedded_in_[heap] == record->dynamic) patchers_[heap].patch_embedded(images_, record);
  }
  ElfImage image;
  if (is_provider(*record) || record->pinned || !parse(*record, &image)) return;
  adopt_jemalloc(record, image, hold);
  record->pinned = hold->pinned();
  // A jemalloc's maps are what is counted already.
  if (!record->pinned && bindings != nullptr) adopt_pages(record, image, *bindings);
}

void Registry::adopt_jemalloc(ImageRecord* record, const ElfImage& image, ImageHold* hold) {
  Jemalloc found;
  if (!Jemalloc::find(image, &found)) return;
  char name[Allocator::kMaxName];
  snprintf(name, sizeof(name), "jemalloc (%s)", found.prefix());
  if (add_allocator(name, record->path) == nullptr) {
    record->note = kNoRoom;
    return;
  }
  unsigned index = allocator_count();
  jemallocs_[index] = found;
  is_jemalloc_[index] = true;
  count_jemalloc(index, record, image);
  // We keep pointers into it, and it may keep hooks of ours.
  hold->pin();
  publish_allocator();
}

// The image is not pinned: nothing of it is called, and a reloaded one finds its owner by its path.
void Registry::adopt_pages(ImageRecord* record, const ElfImage& image,
                           const MapPatcher::Bindings& bindings) {
  const char* note = "";
  if (!pages_.adopt(record, image, bindings, &note)) {
    if (note[0] != '\0') record->note = note;
    return;
  }
  for (unsigned i = 0; i < pages_.owner_count(); ++i) {
    const Pages::Owner& owner = pages_.owner(i);
    if (owner.allocator != nullptr && pages_allocator_[i] == 0) {
      add_pages_allocator(i, owner.allocator);
    }
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

bool Registry::in_use(unsigned i, uint64_t* bytes) {
  if (is_jemalloc_[i]) {
    if (!jemallocs_[i].in_use(bytes)) return false;
    if (allocators_[i].mechanism == Mechanism::kStats) {
      allocators_[i].sampled.store(static_cast<int64_t>(*bytes), std::memory_order_relaxed);
    }
    return true;
  }
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

bool Registry::profiles(unsigned i, uint64_t* bytes_per_sample) const {
  return is_jemalloc_[i] && jemallocs_[i].profiles(bytes_per_sample);
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

unsigned Registry::images_left_out() {
  os::Lock lock(&lock_);
  return images_.left_out();
}

}  // namespace oom_guard
