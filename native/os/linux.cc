#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "os/os.h"

namespace oom_guard {
namespace os {
namespace {

// The value of a "Name:   123 kB" line, in bytes.
bool read_field(const char* text, const char* name, uint64_t* bytes) {
  const char* at = strstr(text, name);
  if (at == nullptr) return false;
  *bytes = strtoull(at + strlen(name), nullptr, 10) * 1024;
  return true;
}

ssize_t read_file(const char* path, char* text, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = read(file, text, size - 1);
  close(file);
  if (length >= 0) text[length] = '\0';
  return length;
}

// Without the C library's wrapper, which would write errno.
long raw_futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
#if defined(__x86_64__)
  long result = SYS_futex;
  register void* timeout __asm__("r10") = nullptr;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(word), "S"(operation), "d"(value), "r"(timeout)
                   : "rcx", "r11", "memory");
  return result;
#else
  int saved = errno;
  long result = syscall(SYS_futex, word, operation, value, nullptr, nullptr, 0);
  errno = saved;
  return result;
#endif
}

}  // namespace

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

bool read_rss(Rss* rss) {
  char text[8192];
  if (read_file("/proc/self/status", text, sizeof(text)) <= 0) return false;
  return read_field(text, "\nVmRSS:", &rss->total) && read_field(text, "\nRssAnon:", &rss->anon) &&
         read_field(text, "\nRssFile:", &rss->file) &&
         read_field(text, "\nRssShmem:", &rss->shared);
}

bool read_stat(const char* file, const char* name, uint64_t* value) {
  char text[8192];
  if (read_file(file, text, sizeof(text)) <= 0) return false;
  size_t length = strlen(name);
  for (const char* line = text; line != nullptr && *line != '\0';) {
    if (strncmp(line, name, length) == 0 && line[length] == ' ') {
      *value = strtoull(line + length, nullptr, 10);
      return true;
    }
    line = strchr(line, '\n');
    if (line != nullptr) ++line;
  }
  return false;
}

bool start_thread(void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  size_t stack = 256 * 1024;
  if (stack < static_cast<size_t>(PTHREAD_STACK_MIN)) stack = PTHREAD_STACK_MIN;
  pthread_attr_setstacksize(&attributes, stack);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Signals belong to the threads of the program.
  sigset_t all, saved;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, run, argument);
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

uint32_t thread_id() {
  return static_cast<uint32_t>(syscall(SYS_gettid));
}

void raise_thread_priority() {
  constexpr int kNice = -10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// The time stamp counter runs at 2 to 5 GHz where it is usable; elsewhere half nanoseconds will do.
uint64_t quick_clock() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return monotonic_ns() * 2;
#endif
}

void wait(std::atomic<uint32_t>* word, uint32_t expected, unsigned milliseconds) {
  timespec left = {static_cast<time_t>(milliseconds / 1000),
                   static_cast<long>(milliseconds % 1000) * 1000000};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &left, nullptr, 0);
}

void wake(std::atomic<uint32_t>* word) {
  raw_futex(word, FUTEX_WAKE_PRIVATE, 1);
}

void wake_all(std::atomic<uint32_t>* word) {
  raw_futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void sleep_ms(unsigned milliseconds) {
  timespec left = {static_cast<time_t>(milliseconds / 1000),
                   static_cast<long>(milliseconds % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace os
}  // namespace oom_guard
