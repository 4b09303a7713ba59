#include "counter/thread_number.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace oom_guard {

bool g_thread_numbers_are_unique = false;

namespace {

// Not asked for each time: a child of vfork shares this memory but has a number of its own.
pid_t g_process;

bool is_right() {
  return thread_number() == static_cast<uint32_t>(syscall(SYS_gettid));
}

void* check_in_thread(void* right) {
  *static_cast<bool*>(right) = is_right();
  return nullptr;
}

}  // namespace

bool thread_lives(uint32_t number) {
  const int saved = errno;
  const bool lives = syscall(SYS_tgkill, g_process, number, 0) == 0 || errno != ESRCH;
  errno = saved;
  return lives;
}

bool check_thread_numbers() {
  bool right = false;
  pthread_t thread;
  g_process = getpid();
  if (kReadsThreadNumbers && is_right() &&
      pthread_create(&thread, nullptr, check_in_thread, &right) == 0) {
    pthread_join(thread, nullptr);
  }
  g_thread_numbers_are_unique = right;
  return right;
}

}  // namespace oom_guard
