#include "counter/thread_number.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace oom_guard {

ptrdiff_t g_thread_number_offset = 0;

namespace {

// The part of the thread's control block that is searched: glibc keeps it above the thread pointer
// on x86-64 and below it on arm64, in about 2300 bytes.
#if defined(__x86_64__)
constexpr ptrdiff_t kFirst = 0, kLast = 2048;
#else
constexpr ptrdiff_t kFirst = -2048, kLast = 0;
#endif
constexpr size_t kCandidates = static_cast<size_t>(kLast - kFirst) / sizeof(uint32_t);

struct Search {
  bool holds[kCandidates];
};

void narrow(Search* search) {
  const char* block = reinterpret_cast<const char*>(thread_pointer());
  auto id = static_cast<uint32_t>(syscall(SYS_gettid));
  for (size_t i = 0; i < kCandidates; ++i) {
    uint32_t value;
    memcpy(&value, block + kFirst + static_cast<ptrdiff_t>(i * sizeof(value)), sizeof(value));
    search->holds[i] = search->holds[i] && value == id;
  }
}

void* narrow_in_thread(void* search) {
  narrow(static_cast<Search*>(search));
  return nullptr;
}

}  // namespace

bool find_thread_numbers() {
  Search search;
  memset(search.holds, 1, sizeof(search.holds));
  narrow(&search);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, narrow_in_thread, &search) != 0) return false;
  pthread_join(thread, nullptr);
  for (size_t i = 0; i < kCandidates; ++i) {
    if (!search.holds[i]) continue;
    g_thread_number_offset = kFirst + static_cast<ptrdiff_t>(i * sizeof(uint32_t));
    if (g_thread_number_offset == 0) continue;
    return true;
  }
  return false;
}

}  // namespace oom_guard
