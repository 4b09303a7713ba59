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

  // Starts counting. Idempotent: the options of the first call stand. One thread only may be here.
  void start(const RegistryOptions& options);
  bool started() const { return started_.load(std::memory_order_acquire); }

  // Patches images that were loaded since the last time. Nearly free when there are none. Waits for
  // loads that are going on, without a lock of ours; what was loaded before is patched when it
  // returns, whoever patches it.
  void rescan();
  // Whether rescan() would have something to do.
  bool is_behind() const;
  // The same as rescan(), but also looks whether the slots still hold what was written there. Some
  // 50 microseconds with a hundred images.
  void recheck();

  // In a forked child: the lock may have been held by a thread that does not exist there, and the
  // loader's too. What is patched goes on counting; new images are not looked for any more.
  void forked();
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }

  // Bytes handed out and not given back, over all counted allocators. May be below zero for what
  // was allocated uncounted and freed counted.
  int64_t live() const;

  unsigned allocator_count() const { return allocator_count_.load(std::memory_order_acquire); }
  const Allocator& allocator(unsigned i) const { return allocators_[i]; }
  // What allocator i itself says is in use now, bytes; false when it has no statistics. Takes the
  // allocator's locks. Where its statistics are what it is counted by, this is a sample.
  bool in_use(unsigned i, uint64_t* bytes);
  // See Jemalloc::profiles(); false when it is no jemalloc.
  bool profiles(unsigned i, uint64_t* bytes_per_sample) const;

  // Reads the statistics, and the resident pages, of allocators that are counted by sampling. Takes
  // their locks, and the kernel's on the address space; never on the main thread. Does not wait for
  // loads.
  void sample();
  // Whether there is anything to sample.
  bool samples() const;

  // For benchmarks only: points all patched slots elsewhere, takes hooks out. The books are wrong
  // afterwards.
  void retarget(SlotTarget target);

  // Gives freed memory back to the kernel: trims glibc, purges every jemalloc. Milliseconds.
  void release_free_memory() const;

  // Changes when each_image() may tell something new.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Calls `visit` for each loaded image, under the registry's lock, which nobody holds for long.
  void each_image(void (*visit)(void*, const ImageRecord&), void* context);
  // Loaded images that found no room in the table of images, and are not counted.
  unsigned images_left_out();

 private:
  void start_process_malloc();
  void visit_images();
  bool next_to_visit(uint64_t after, ImageRecord* out);
  void visit(ImageRecord* record, ImageHold* hold, const MapPatcher::Bindings* bindings);
  void adopt_jemalloc(ImageRecord* record, const ElfImage& image, ImageHold* hold);
  bool count_by_callsites(unsigned index, ImageRecord* record, const ElfImage& image);
  void count_jemalloc(unsigned index, ImageRecord* record, const ElfImage& image);
  void adopt_pages(ImageRecord* record, const ElfImage& image,
                   const MapPatcher::Bindings& bindings);
  void sample_pages();
  bool add_pages_allocator(unsigned owner, const char* name);
  Allocator* add_allocator(const char* name, const char* owner);
  bool is_provider(const ImageRecord& record) const {
    return provider_.dynamic != 0 && record.dynamic == provider_.dynamic;
  }
  void publish_allocator() { allocator_count_.fetch_add(1, std::memory_order_release); }

  void changed() { generation_.fetch_add(1, std::memory_order_release); }

  // Nobody waits for the loader, or ends an ImageHold, while holding it: whoever asks for the
  // images must not wait for somebody's constructors, and an unloaded image's destructors may come
  // back here.
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> started_{false};
  std::atomic<uint64_t> generation_{0};
  // There are images that are to be visited, or looked at once more.
  std::atomic<bool> pending_{false};
  std::atomic<bool> forked_{false};
  RegistryOptions options_;
  bool callsites_ = false;  // the process malloc is counted at its call sites
  ImageTable images_;
  Provider provider_;
  Patcher patchers_[kHeaps];  // the first is the process malloc's
  unsigned embedded_heaps_ = 0;
  uintptr_t embedded_in_[kHeaps] = {};  // the dynamic section of the image that has that heap
  Glibc glibc_;
  bool (*tcmalloc_property_)(const char*, size_t*) = nullptr;
  std::atomic<unsigned> allocator_count_{0};
  Allocator allocators_[kMaxAllocators];
  Shards hook_shards_[kMaxAllocators];  // by allocator, unless its wrappers bring their own
  Jemalloc jemallocs_[kMaxAllocators];  // by allocator; unused where it is none
  bool is_jemalloc_[kMaxAllocators] = {};
  Pages pages_;
  std::atomic<unsigned> pages_allocator_[PageRanges::kMaxOwners] = {};  // by owner; 0: none yet
};

}  // namespace oom_guard
