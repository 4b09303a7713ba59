// What an allocator is: one heap in this process, and how it is counted.
#pragma once

#include "counter/shards.h"

namespace oom_guard {

enum class Mechanism : uint8_t { kNone, kCallsites, kHooks, kStats, kPages };

struct Allocator {
  static constexpr size_t kMaxName = 64;
  static constexpr size_t kMaxPath = 1024;

  char name[kMaxName];
  char owner[kMaxPath];  // path of the image that provides it
  Mechanism mechanism;
  std::atomic<const char*> note;  // what is missing and why; "" when nothing is
  char note_text[192];            // where `note` may point to

  // In use when counting began, by the allocator's own statistics less what was counted by then.
  std::atomic<int64_t> baseline;
  bool baseline_known;
  Shards* shards;
  // Mechanisms that sample: what was in use at the last sample.
  std::atomic<int64_t> sampled;

  bool samples() const { return mechanism == Mechanism::kStats || mechanism == Mechanism::kPages; }

  // Whether what its live bytes are is added up in `shards`.
  bool books() const {
    return mechanism == Mechanism::kCallsites || mechanism == Mechanism::kHooks;
  }

  int64_t live() const {
    if (samples()) return sampled.load(std::memory_order_relaxed);
    Totals totals = shards->sum();
    return baseline.load(std::memory_order_relaxed) +
           static_cast<int64_t>(totals.allocated - totals.freed);
  }
};

// Sets the baseline so that live equals what the allocator says is in use at this moment. `in_use`
// returns false when it cannot tell.
template <class InUse>
void set_baseline(Allocator* allocator, InUse in_use) {
  uint64_t bytes = 0;
  allocator->baseline_known = in_use(&bytes);
  Totals totals = allocator->shards->sum();
  int64_t counted = static_cast<int64_t>(totals.allocated - totals.freed);
  allocator->baseline.store(allocator->baseline_known ? static_cast<int64_t>(bytes) - counted : 0,
                            std::memory_order_relaxed);
}

}  // namespace oom_guard
