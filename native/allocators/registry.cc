#include "allocators/registry.h"

#include <cstdio>
#include <cstring>

namespace oom_guard {
namespace {

class Locked {
 public:
  explicit Locked(pthread_mutex_t* lock) : lock_(lock) { pthread_mutex_lock(lock_); }
  ~Locked() { pthread_mutex_unlock(lock_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t* lock_;
};

bool parse(const ImageRecord& record, ElfImage* image) {
  return image->parse(record.base, record.phdr, record.phdr_count) == ImageError::kNone;
}

}  // namespace

void Registry::start(const RegistryOptions& options) {
  if (started()) return;
  Locked locked(&lock_);
  if (started()) return;
  find_thread_numbers();
  images_.refresh();
  start_process_malloc(options.patch);
  visit_images();
  if (callsites_) {
    // After all slots are written, so that what is booked and what the allocator says agree from
    // here on.
    set_baseline(&allocators_[0], [this](uint64_t* bytes) { return in_use(0, bytes); });
  }
  started_.store(true, std::memory_order_release);
}

void Registry::start_process_malloc(bool patch) {
  find_provider(images_, &provider_);
  char name[Allocator::kMaxName];
  snprintf(name, sizeof(name), "malloc (%s)", describe(provider_.kind));
  Allocator* allocator = add_allocator(name, provider_.path);

  ElfImage image;
  for (unsigned i = 0; i < images_.size(); ++i) {
    ImageRecord& record = images_[i];
    if (!is_provider(record) || !parse(record, &image)) continue;
    if (provider_.is_libc) {
      glibc_.find(image);
    } else if (record.role != ImageRole::kExecutable) {
      record.role = ImageRole::kProvider;
    }
    tcmalloc_property_ = reinterpret_cast<bool (*)(const char*, size_t*)>(
        image.find_defined("MallocExtension_GetNumericProperty"));
    if (provider_.kind == ProviderKind::kJemalloc && Jemalloc::find(image, &jemallocs_[0])) {
      is_jemalloc_[0] = true;
      if (jemallocs_[0].install_hooks(allocator, &allocator->note)) {
        allocator->mechanism = Mechanism::kHooks;
        allocator->note = "";
        set_baseline(allocator, [this](uint64_t* bytes) { return in_use(0, bytes); });
      }
    }
  }
  if (allocator->mechanism == Mechanism::kNone) {
    if (!patch) {
      allocator->note = "patching is switched off by the environment";
    } else if (patcher_.prepare(&images_, provider_, &allocator->shards)) {
      allocator->mechanism = Mechanism::kCallsites;
      callsites_ = true;
    } else {
      allocator->note = patcher_.problem();
    }
  }
  publish_allocator();
}

void Registry::rescan() {
  if (!started()) return;
  if (!images_.changed() && !recheck_.load(std::memory_order_relaxed)) return;
  Locked locked(&lock_);
  recheck_.store(false, std::memory_order_relaxed);
  images_.refresh();
  visit_images();
}

void Registry::visit_images() {
  for (unsigned i = 0; i < images_.size(); ++i) {
    ImageRecord& record = images_[i];
    if (record.lazy && !record.rechecked) {
      // Another thread that was binding a stub while we wrote may have written after us.
      record.rechecked = true;
      record.visited = false;
    }
    if (record.visited) continue;
    if (record.role == ImageRole::kVdso || record.role == ImageRole::kLoader ||
        record.role == ImageRole::kSelf) {
      record.visited = true;
      continue;
    }
    ImageHold hold(record);
    if (!hold.valid()) {
      record.note = "it could not be held while its slots are written";
      continue;
    }
    record.note = "";
    if (callsites_) patcher_.patch(images_, &record);
    record.visited = true;
    if (record.lazy && !record.rechecked) recheck_.store(true, std::memory_order_relaxed);
    ElfImage image;
    if (!is_provider(record) && !record.pinned && parse(record, &image)) {
      adopt_jemalloc(record, image, &hold);
      record.pinned = hold.pinned();
    }
  }
}

void Registry::adopt_jemalloc(const ImageRecord& record, const ElfImage& image, ImageHold* hold) {
  Jemalloc found;
  if (!Jemalloc::find(image, &found)) return;
  char name[Allocator::kMaxName];
  snprintf(name, sizeof(name), "jemalloc (%s)", found.prefix());
  Allocator* allocator = add_allocator(name, record.path);
  if (allocator == nullptr) return;
  unsigned index = allocator_count();
  jemallocs_[index] = found;
  is_jemalloc_[index] = true;
  if (found.install_hooks(allocator, &allocator->note)) {
    allocator->mechanism = Mechanism::kHooks;
    allocator->note = "";
    set_baseline(allocator, [&](uint64_t* bytes) { return found.in_use(bytes); });
  }
  // We keep pointers into it, and it keeps hooks of ours.
  hold->pin();
  publish_allocator();
}

Allocator* Registry::add_allocator(const char* name, const char* owner) {
  unsigned index = allocator_count();
  if (index == kMaxAllocators) return nullptr;
  Allocator* allocator = &allocators_[index];
  snprintf(allocator->name, sizeof(allocator->name), "%s", name);
  snprintf(allocator->owner, sizeof(allocator->owner), "%s", owner);
  allocator->mechanism = Mechanism::kNone;
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
  Locked locked(&lock_);
  for (unsigned i = 0; i < images_.size(); ++i) visit(context, images_[i]);
}

}  // namespace oom_guard
