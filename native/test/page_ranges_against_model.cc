// The table of mapped ranges against a plain array of pages: random records and removals, many
// threads whose pages lie in one range, and more ranges than the table holds.
#include <pthread.h>

#include <cstring>

#include "check.h"
#include "counter/page_ranges.h"

namespace {

using oom_guard::PageRanges;

constexpr uintptr_t kBase = uintptr_t{0x7f0000000000};
constexpr size_t kPage = 4096;

PageRanges g_ranges;
PageRanges::Range g_copy[PageRanges::kCapacity];

uintptr_t address_of(size_t page) {
  return kBase + page * kPage;
}

uint32_t next(uint32_t* state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 8;
}

// Pages and whose they are: the owner plus one, or 0.
template <size_t kPages>
struct Model {
  uint8_t page[kPages] = {};
  void set(size_t first, size_t count, uint8_t value) { memset(page + first, value, count); }
};

template <size_t kPages>
void compare(const Model<kPages>& model, const char* when) {
  static uint8_t seen[kPages];
  memset(seen, 0, sizeof(seen));
  unsigned count = g_ranges.snapshot(g_copy);
  for (unsigned i = 0; i < count; ++i) {
    for (uintptr_t at = g_copy[i].from; at < g_copy[i].to; at += kPage) {
      size_t page = (at - kBase) / kPage;
      CHECK(page < kPages, "%s: a range outside, %zu", when, page);
      CHECK(seen[page] == 0, "%s: page %zu stands there twice", when, page);
      seen[page] = static_cast<uint8_t>(g_copy[i].owner + 1);
    }
  }
  for (size_t i = 0; i < kPages; ++i) {
    CHECK(seen[i] == model.page[i], "%s: page %zu is of %d, not %d", when, i, seen[i],
          model.page[i]);
  }
}

void random_operations() {
  constexpr size_t kPages = 512;
  static Model<kPages> model;
  uint32_t state = 7;
  for (int n = 0; n < 200000; ++n) {
    size_t first = next(&state) % kPages, count = 1 + next(&state) % 40;
    if (count > kPages - first) count = kPages - first;
    unsigned owner = next(&state) % PageRanges::kMaxOwners;
    // The kernel rounds a length up.
    size_t length = count * kPage - next(&state) % kPage;
    switch (next(&state) % 3) {
      case 0:
        g_ranges.record(owner, address_of(first), length);
        model.set(first, count, static_cast<uint8_t>(owner + 1));
        break;
      case 1:
        g_ranges.forget(address_of(first), length);
        model.set(first, count, 0);
        break;
      default: {
        // As when the kernel refuses: nothing has changed.
        PageRanges::Removed removed;
        g_ranges.forget(address_of(first), count < 6 ? length : 6 * kPage, &removed);
        g_ranges.restore(removed);
      }
    }
    if (n % 64 == 0) compare(model, "random operations");
  }
  g_ranges.forget(kBase, kPages * kPage);
  CHECK(g_ranges.snapshot(g_copy) == 0, "something is left");
  g_ranges.record(0, kBase + 1, kPage);
  g_ranges.record(0, kBase, 0);
  CHECK(g_ranges.snapshot(g_copy) == 0, "what is no range was noted");
}

constexpr size_t kThreads = 8, kOwnPages = 64, kAllPages = kThreads * kOwnPages;
Model<kAllPages> g_shared;
std::atomic<bool> g_done{false};

void* churn(void* argument) {
  size_t self = reinterpret_cast<size_t>(argument);
  uint32_t state = static_cast<uint32_t>(self) + 1;
  for (int n = 0; n < 100000; ++n) {
    size_t first = self * kOwnPages + next(&state) % kOwnPages;
    size_t room = (self + 1) * kOwnPages - first, count = 1 + next(&state) % 8;
    if (count > room) count = room;
    bool maps = next(&state) % 3 == 0;
    if (maps) g_ranges.record(1, address_of(first), count * kPage);
    if (!maps) g_ranges.forget(address_of(first), count * kPage);
    g_shared.set(first, count, maps ? 2 : 0);
  }
  return nullptr;
}

void* read_meanwhile(void*) {
  static PageRanges::Range copy[PageRanges::kCapacity];
  while (!g_done.load()) {
    unsigned count = g_ranges.snapshot(copy);
    for (unsigned i = 0; i < count; ++i) {
      CHECK(copy[i].owner == 1 && copy[i].from < copy[i].to, "a range that nobody noted");
    }
  }
  return nullptr;
}

// All threads' pages lie in one range at first, so they cut holes into the same word.
void concurrent_threads() {
  for (int round = 0; round < 5; ++round) {
    g_done.store(false);
    g_ranges.record(1, kBase, kAllPages * kPage);
    g_shared.set(0, kAllPages, 2);
    pthread_t threads[kThreads], reader;
    pthread_create(&reader, nullptr, read_meanwhile, nullptr);
    for (size_t i = 0; i < kThreads; ++i) {
      pthread_create(&threads[i], nullptr, churn, reinterpret_cast<void*>(i));
    }
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    g_done.store(true);
    pthread_join(reader, nullptr);
    compare(g_shared, "threads");
  }
  g_ranges.forget(kBase, kAllPages * kPage);
}

void full_table() {
  constexpr size_t kTooMany = PageRanges::kCapacity + 100;
  CHECK(g_ranges.lost_bytes(3) == 0, "something was lost before");
  for (size_t i = 0; i < kTooMany; ++i) g_ranges.record(3, address_of(2 * i), kPage);
  CHECK(g_ranges.lost_bytes(3) == 100 * kPage, "%zu bytes lost",
        static_cast<size_t>(g_ranges.lost_bytes(3)));
  CHECK(g_ranges.snapshot(g_copy) == PageRanges::kCapacity, "the table is not full");
  g_ranges.forget(kBase, 2 * kTooMany * kPage);
  // One that is longer than a word can say takes several, and ends where it should.
  constexpr size_t kLong = size_t{100} << 30;
  g_ranges.record(3, kBase, kLong);
  unsigned count = g_ranges.snapshot(g_copy);
  size_t total = 0;
  for (unsigned i = 0; i < count; ++i) total += g_copy[i].to - g_copy[i].from;
  CHECK(total == kLong, "%zu bytes of a long range", total);
  CHECK(g_ranges.covers(kBase + kLong - 1) && !g_ranges.covers(kBase + kLong), "its end is wrong");
  g_ranges.forget(kBase, kLong);
  CHECK(g_ranges.snapshot(g_copy) == 0, "something is left");
}

}  // namespace

int main() {
  g_ranges.set_page_size(kPage);
  random_operations();
  concurrent_threads();
  full_table();
  return 0;
}
