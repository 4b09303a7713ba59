#include "allocators/pages.h"

#include <time.h>

#include <cstdio>
#include <cstring>

#include "allocators/residency.h"

namespace oom_guard {
namespace {

uint64_t now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

// A reloaded image finds its owner again, however often.
unsigned Pages::find_owner(const char* path) const {
  unsigned count = owner_count();
  for (unsigned i = 0; i < count; ++i) {
    if (strcmp(owners_[i].path, path) == 0) return i;
  }
  return count;
}

void Pages::prepare(const ImageTable& images) {
  if (!patcher_.prepare(images, &ranges_)) {
    why_not_ = "something in the process stands in for libc's mmap";
  } else if (!residency_is_readable()) {
    why_not_ = "mincore does not tell here which pages are resident";
  }
}

bool Pages::may_hide_allocator(const ImageRecord& record, const ElfImage& image) {
  // libc, ld.so and the executable map memory for everyone else, and under the loader's or malloc's
  // locks.
  if (record.role != ImageRole::kOther || !MapPatcher::may_hide_allocator(image)) return false;
  // Node built as a shared library: what it maps are V8's heaps, which are counted as such.
  return image.find_defined("napi_create_function") == 0;
}

bool Pages::adopt(ImageRecord* record, const ElfImage& image, const MapPatcher::Bindings& bindings,
                  const char** note) {
  *note = "";
  const char* allocator = recognise_hidden_allocator(image, *record);
  if (why_not_[0] != '\0') {
    if (allocator != nullptr) *note = why_not_;
    return false;
  }
  unsigned index = find_owner(record->path);
  if (index == PageRanges::kMaxOwners) {
    *note = "too many images map memory of their own";
    return false;
  }
  bool is_new = index == owner_count();
  if (patcher_.patch(record, image, bindings, index) == 0) {
    if (allocator != nullptr) *note = "the slots through which it maps memory could not be written";
    return false;
  }
  Owner& owner = owners_[index];
  uint64_t earlier = find_earlier_maps(image, *record, index, &ranges_);
  if (is_new) {
    snprintf(owner.path, sizeof(owner.path), "%s", record->path);
    owner.allocator = allocator;
    owner.earlier = earlier;
    owner.resident.store(0, std::memory_order_relaxed);
    owner_count_.fetch_add(1, std::memory_order_release);
  } else {
    owner.earlier += earlier;
  }
  return true;
}

void Pages::sample() {
  if (owner_count() == 0) return;
  constexpr uint64_t kShare = 100;
  if (sampling_.test_and_set(std::memory_order_acquire)) return;
  uint64_t now = now_ns(CLOCK_MONOTONIC);
  if (now >= next_sample_ns_) {
    // What it cost is what this thread worked, however long it waited for a core.
    uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
    read();
    next_sample_ns_ = now + (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) * kShare;
  }
  sampling_.clear(std::memory_order_release);
}

void Pages::read() {
  uint64_t bytes[PageRanges::kMaxOwners];
  if (!read_resident_bytes(ranges_, scratch_, bytes) || dropped_) {
    dropped_ = drop_unmapped(&ranges_, scratch_);
    if (dropped_) read_resident_bytes(ranges_, scratch_, bytes);
  }
  unsigned count = owner_count();
  for (unsigned i = 0; i < count; ++i) {
    owners_[i].resident.store(bytes[i], std::memory_order_relaxed);
  }
}

}  // namespace oom_guard
