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

  // Begins to note what an image maps, if it imports what an allocator needs for that. The caller
  // holds the image, and has made sure that nothing else counts the memory it maps: neither is it
  // the provider of malloc, nor has it a jemalloc that is counted. False when the image maps
  // nothing, or when it cannot be done; *note then says why, or is "". Under the registry's lock.
  bool adopt(const ImageTable& images, ImageRecord* record, const ElfImage& image,
             const char** note);

  // Reads what is resident. Never on the main thread: it takes the
  // kernel's lock on the address space. Skips a turn when the last reading took long, so that it
  // costs at most a hundredth of a core.
  void sample();

  unsigned owner_count() const { return owner_count_.load(std::memory_order_acquire); }
  const Owner& owner(unsigned i) const { return owners_[i]; }
  // Bytes of maps that found no place in the table and are not counted.
  uint64_t lost_bytes(unsigned i) const { return ranges_.lost_bytes(i); }

 private:
  unsigned find_owner(const char* path) const;
  void read();

  enum class State : uint8_t { kNew, kReady, kUnavailable };
  State state_ = State::kNew;
  const char* why_not_ = "";
  MapPatcher patcher_;
  PageRanges ranges_;
  PageRanges::Range scratch_[PageRanges::kCapacity];
  std::atomic<unsigned> owner_count_{0};
  Owner owners_[PageRanges::kMaxOwners];
  std::atomic_flag sampling_ = ATOMIC_FLAG_INIT;
  uint64_t next_sample_ns_ = 0;
};

}  // namespace oom_guard
