// Children by fork, vfork and posix_spawn while threads allocate and libraries come and go: a child
// of fork has one thread and whatever locks the others held. It allocates, and reads what takes
// none. (DataDog/ddprof pull request 490, perfetto's atfork handler.)
#include <spawn.h>
#include <sys/wait.h>

#include "books.h"
#include "churning.h"

extern char** environ;

namespace {

constexpr int kChildren = 100;
std::atomic<bool> g_stop{false};

void* load_and_unload(void*) {
  while (!g_stop.load()) dlclose(load("liblazy_user.so"));
  return nullptr;
}
void* rescan(void*) {
  while (!g_stop.load()) engine().rescan();
  return nullptr;
}

// `exact` where no other thread books.
int in_child(bool exact) {
  alarm(10);  // a deadlock ends in a signal
  for (int n = 0; n < 100; ++n) {
    Since start;
    void* block = malloc(1000 + n);
    if (start.allocated() < block_size(block)) return 2;
    if (exact && start.allocated() != block_size(block)) return 3;
    free(realloc(block, 5000));
    if (exact && start.live() != 0) return 4;
  }
  engine().live();
  return engine().allocator_count() > 0 ? 0 : 5;
}

void wait_for(pid_t child, const char* how) {
  int status = 0;
  CHECK(child > 0, "%s failed", how);
  CHECK(waitpid(child, &status, 0) == child, "%s: no child", how);
  CHECK(status == 0, "%s: the child ended with status %#x", how, status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {  // after exec
    start_counting();
    return in_child(false);
  }
  start_counting();
  Churning churning(2);
  pthread_t loader, rescanner;
  pthread_create(&loader, nullptr, load_and_unload, nullptr);
  pthread_create(&rescanner, nullptr, rescan, nullptr);
  char* again[] = {argv[0], const_cast<char*>("child"), nullptr};
  for (int n = 0; n < kChildren; ++n) {
    pid_t child = fork();
    if (child == 0) _exit(in_child(true));
    wait_for(child, "fork");
    if (n % 5 != 0) continue;
    child = vfork();
    if (child == 0) {
      execv("/proc/self/exe", again);
      _exit(6);
    }
    wait_for(child, "vfork and exec");
    CHECK(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, again, environ) == 0, "spawn");
    wait_for(child, "posix_spawn");
  }
  g_stop = true;
  pthread_join(loader, nullptr);
  pthread_join(rescanner, nullptr);
  return 0;
}
