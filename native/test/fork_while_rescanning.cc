// A child of fork asks for a snapshot and looks for new images, though some thread of its parent
// was in the middle of that, or of loading a library: it must not wait for a lock that nobody holds
// any more, nor use a loader that is in a state of its own.
#include <sys/wait.h>

#include "books.h"
#include "churning.h"

namespace {

std::atomic<bool> g_stop{false};

void* load_and_unload(void*) {
  while (!g_stop.load()) dlclose(load("liblazy_user.so"));
  return nullptr;
}
void* rescan(void*) {
  while (!g_stop.load()) engine().rescan();
  return nullptr;
}

}  // namespace

int main() {
  start_counting();
  pthread_t loader, rescanner;
  pthread_create(&loader, nullptr, load_and_unload, nullptr);
  pthread_create(&rescanner, nullptr, rescan, nullptr);
  for (int n = 0; n < 100; ++n) {
    pid_t child = fork();
    if (child == 0) {
      alarm(5);  // a deadlock ends in a signal
      bool found = report_of("libc.so").found;
      engine().rescan();
      _exit(found ? 0 : 2);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
    CHECK(status == 0, "child %d ended with status %#x", n, status);
  }
  g_stop = true;
  pthread_join(loader, nullptr);
  pthread_join(rescanner, nullptr);
  return 0;
}
