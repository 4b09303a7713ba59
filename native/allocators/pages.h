// The mechanism `pages`: allocators hidden inside images are counted by the pages of theirs that
// are resident, sampled. Their images' own slots tell which ranges they map.
#pragma once

#include "allocators/hidden.h"
#include "callsites/map_wrappers.h"
#include "counter/page_ranges.h"

namespace oom_guard {

class Pages {
 public:
  // Below this an image that was not recognised has maps, as a Rust thread has for its signal
  // stack, and no allocator.
  static constexpr uint64_t kBulk = 4 << 20;

  struct Owner {
    char path[ImageRecord::kMaxPath];
    const char* allocator;  // its name; null while it was not recognised
    uint64_t earlier;       // bytes that were mapped before its slots were written, and found
    std::atomic<uint64_t> resident;

    // Whether it is to be reported, and counted, as an allocator.
    bool counts() const {
      return allocator != nullptr || resident.load(std::memory_order_relaxed) >= kBulk;
    }
  };

  // Once, before all else. Takes the loader's lock.
  void prepare(const ImageTable& images);

  // Whether an image imports what an allocator needs that takes its memory from the kernel. The
  // caller holds the image.
  static bool may_hide_allocator(const ImageRecord& record, const ElfImage& image);

  // Begins to note what such an image maps. The caller holds the image, and has made sure that
  // nothing else counts the memory it maps: neither is it the provider of malloc, nor has it a
  // jemalloc that is counted. False when it cannot be done; *note then says why, or is "" where
  // nothing is lost. Under the registry's lock.
  bool adopt(ImageRecord* record, const ElfImage& image, const MapPatcher::Bindings& bindings,
             const char** note);

  // Reads what is resident. Never on the main thread: it takes the kernel's lock on the address
  // space. Skips a turn when the last reading took long, so that it costs at most a hundredth of a
  // core.
  void sample();

  unsigned owner_count() const { return owner_count_.load(std::memory_order_acquire); }
  const Owner& owner(unsigned i) const { return owners_[i]; }
  // Bytes of maps that found no place in the table and are not counted.
  uint64_t lost_bytes(unsigned i) const { return ranges_.lost_bytes(i); }

 private:
  unsigned find_owner(const char* path) const;
  void read();

  const char* why_not_ = "";  // why nothing can be adopted; "" when it can
  MapPatcher patcher_;
  PageRanges ranges_;
  PageRanges::Range scratch_[PageRanges::kCapacity];
  std::atomic<unsigned> owner_count_{0};
  Owner owners_[PageRanges::kMaxOwners];
  std::atomic_flag sampling_ = ATOMIC_FLAG_INIT;
  uint64_t next_sample_ns_ = 0;
  bool dropped_ = false;  // the last reading found ranges that were not mapped
};

}  // namespace oom_guard
