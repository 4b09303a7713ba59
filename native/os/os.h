// What is asked of the operating system: one header, one file per OS, no #ifdef elsewhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace oom_guard {
namespace os {

// The real page size in bytes; never assume 4096 (arm64 has 16 and 64 KiB).
size_t page_size();

struct Rss {
  uint64_t total, anon, file, shared;  // bytes
};

// Resident memory of this process. False when the OS does not tell. 10 to 20 microseconds.
bool read_rss(Rss* rss);

// The number in a file's line "name number", as in memory.stat of a cgroup.
bool read_stat(const char* file, const char* name, uint64_t* value);

struct Mapping {
  uintptr_t from, to;
  bool anonymous;  // private, of no file, without a name
};

// Calls `visit` for each mapping of this process, in the order of their addresses. Those that come
// or go meanwhile may be in it or not. Allocates nothing, keeps errno; some microseconds each ten
// of them.
void each_mapping(void (*visit)(void* context, const Mapping&), void* context);

// Starts a detached thread with a small stack and all signals blocked. False when refused.
bool start_thread(void* (*run)(void*), void* argument);

// The kernel's number of the calling thread.
uint32_t thread_id();

// Asks that the calling thread gets a core soon after it wakes, where the process may ask for that.
void raise_thread_priority();

uint64_t monotonic_ns();

// A clock that costs a few nanoseconds, for "was that just now": whether 20 to 50 microseconds have
// passed between two of its readings.
uint64_t quick_clock();
constexpr uint64_t kQuickClockMoment = 100000;

// Sleeps until wake() is called on `word`, for as long as it holds `expected`, at most so long.
void wait(std::atomic<uint32_t>* word, uint32_t expected, unsigned milliseconds);
// Wakes one thread that waits. May be called from anywhere: allocates nothing, keeps errno.
void wake(std::atomic<uint32_t>* word);
void wake_all(std::atomic<uint32_t>* word);

// Sleeps without waking on signals.
void sleep_ms(unsigned milliseconds);

}  // namespace os
}  // namespace oom_guard
