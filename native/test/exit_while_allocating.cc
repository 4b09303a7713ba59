// The process ends, by exit or _exit, while eight threads allocate: the wrappers outlive every
// destructor. (google/tcmalloc issue 296.)
#include <sys/wait.h>

#include "books.h"
#include "churning.h"

int main(int argc, char** argv) {
  if (argc > 1) {
    start_counting();
    // Never told to stop: its destructor does not run.
    auto* churning = new Churning(8);
    (void)churning;
    timespec moment = {0, 20000000};
    nanosleep(&moment, nullptr);
    if (argv[1][0] == '_') _exit(0);
    exit(0);
  }
  for (int n = 0; n < 20; ++n) {
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
      alarm(20);
      execl("/proc/self/exe", argv[0], n % 2 == 0 ? "exit" : "_exit", nullptr);
      _exit(5);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "run %d ended with status %#x", n,
          status);
  }
  return 0;
}
