// Finds the allocators of this process, chooses one mechanism for each, and keeps up with images
// that are loaded later. Process-wide, never torn down.
#pragma once

#include <pthread.h>

#include "allocators/allocator.h"
#include "allocators/glibc.h"
#include "allocators/jemalloc.h"
#include "allocators/pages.h"
#include "callsites/image_table.h"
#include "callsites/patcher.h"
#include "callsites/provider.h"

namespace oom_guard {

// Which mechanism to use for a jemalloc. The first that works, from the named one on; `auto` tries
// the cheapest first.
enum class JemallocChoice : uint8_t { kAuto, kCallsites, kHooks, kStats };

struct RegistryOptions {
  bool patch = true;  // false: no import slot is written
  JemallocChoice jemalloc = JemallocChoice::kAuto;
};

class Registry {
 public:
  static constexpr unsigned kMaxAllocators = 40;

  // Starts counting. Idempotent: the options of the first call stand.
  void start(const RegistryOptions& options);
  bool started() const { return started_.load(std::memory_order_acquire); }

  // Patches images that were loaded since the last time. Nearly free when there are none. May wait
  // for a load that is going on, so never called from the sampling thread.
  void rescan();

  // In a forked child: the lock may have been held by a thread that does not exist there, and the
  // loader's too. What is patched goes on counting; new images are not looked for any more.
  void forked();

  // Bytes handed out and not given back, over all counted allocators. May be below zero for what
  // was allocated uncounted and freed counted.
  int64_t live() const;

  unsigned allocator_count() const { return allocator_count_.load(std::memory_order_acquire); }
  const Allocator& allocator(unsigned i) const { return allocators_[i]; }
  // What allocator i itself says is in use now, bytes; false when it has no statistics. Takes the
  // allocator's locks.
  bool in_use(unsigned i, uint64_t* bytes) const;

  // Reads the statistics, and the resident pages, of allocators that are counted by sampling. Takes
  // their locks, and the kernel's on the address space; never on the main thread.
  void sample();

  // For benchmarks only: points all patched slots elsewhere. The books are wrong afterwards.
  void retarget(SlotTarget target);

  // Gives freed memory back to the kernel: trims glibc, purges every jemalloc. Milliseconds.
  void release_free_memory() const;

  // Changes when each_image() may tell something new.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Calls `visit` for each loaded image, under the registry's lock.
  void each_image(void (*visit)(void*, const ImageRecord&), void* context);

 private:
  void start_process_malloc();
  void visit_images();
  void adopt_jemalloc(ImageRecord* record, const ElfImage& image, ImageHold* hold);
  bool count_by_callsites(unsigned index, ImageRecord* record, const ElfImage& image);
  void count_jemalloc(unsigned index, ImageRecord* record, const ElfImage& image);
  void adopt_pages(ImageRecord* record, const ElfImage& image);
  void sample_pages();
  bool add_pages_allocator(unsigned owner);
  Allocator* add_allocator(const char* name, const char* owner);
  bool is_provider(const ImageRecord& record) const {
    return provider_.dynamic != 0 && record.dynamic == provider_.dynamic;
  }
  void publish_allocator() { allocator_count_.fetch_add(1, std::memory_order_release); }

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> started_{false};
  std::atomic<uint64_t> generation_{0};
  // A scan is going on: whoever asks meanwhile waits for it, since its images may not be written
  // yet.
  std::atomic<bool> busy_{false};
  std::atomic<bool> forked_{false};
  std::atomic<bool> recheck_{false};
  RegistryOptions options_;
  bool callsites_ = false;  // the process malloc is counted at its call sites
  ImageTable images_;
  Provider provider_;
  Patcher patchers_[kHeaps];  // the first is the process malloc's
  unsigned embedded_heaps_ = 0;
  Glibc glibc_;
  bool (*tcmalloc_property_)(const char*, size_t*) = nullptr;
  std::atomic<unsigned> allocator_count_{0};
  Allocator allocators_[kMaxAllocators];
  Shards hook_shards_[kMaxAllocators];  // by allocator, unless its wrappers bring their own
  Jemalloc jemallocs_[kMaxAllocators];  // by allocator; unused where it is none
  bool is_jemalloc_[kMaxAllocators] = {};
  Pages pages_;
  unsigned pages_allocator_[PageRanges::kMaxOwners] = {};  // by owner; 0 while it is none
};

}  // namespace oom_guard
