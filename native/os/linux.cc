#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

void* run_thread(void* run) {
  reinterpret_cast<void (*)()>(run)();
  return nullptr;
}

}  // namespace

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

bool read_rss(Rss* rss) {
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[8192];
  ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  return read_field(text, "\nVmRSS:", &rss->total) && read_field(text, "\nRssAnon:", &rss->anon) &&
         read_field(text, "\nRssFile:", &rss->file) &&
         read_field(text, "\nRssShmem:", &rss->shared);
}

bool start_thread(void (*run)()) {
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
  int error = pthread_create(&thread, &attributes, run_thread, reinterpret_cast<void*>(run));
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

void sleep_ms(unsigned milliseconds) {
  timespec left = {static_cast<time_t>(milliseconds / 1000),
                   static_cast<long>(milliseconds % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace os
}  // namespace oom_guard
