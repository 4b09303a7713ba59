// The system gives no more threads: what is loaded is found when somebody asks, and that nobody
// looks meanwhile is said.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "books.h"

namespace {

bool deny() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

int main() {
  CHECK(!tells_gap("thread"), "threads are missed before counting began");
  if (!deny()) missing("seccomp filters");
  start_counting();
  CHECK(!engine().rescanner_running(), "there is a thread");
  CHECK(tells_gap("refused the thread that looks"), "nothing is said");
  load("libbound_user.so", RTLD_NOW);
  engine().catch_up();
  CHECK(report_of("libbound_user.so").patched >= 3, "the library was not found");
  CHECK(!tells_gap("refused the thread that samples"), "nothing is to be sampled");
  return 0;
}
