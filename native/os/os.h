// What is asked of the operating system: one header, one file per OS, no #ifdef elsewhere.
#pragma once

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

// Starts a detached thread with a small stack and all signals blocked. False when refused.
bool start_thread(void (*run)());

// Sleeps without waking on signals.
void sleep_ms(unsigned milliseconds);

}  // namespace os
}  // namespace oom_guard
