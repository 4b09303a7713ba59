// A sandbox refuses to make a page writable that is not: the slots on it are left, and reported. A
// tool that writes all the same faults. (memray writes without looking at the result.)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <initializer_list>

#include "books.h"

namespace {

// In all threads: mprotect(…, PROT_READ | PROT_WRITE) fails. What the loader itself does after
// relocation, making pages read-only, still works.
bool deny() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

}  // namespace

int main() {
  start_counting();
  if (!deny()) missing("seccomp filters");
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EPERM, "not denied");

  void* bound = load("libbound_user.so", RTLD_NOW);  // all its slots lie in RELRO
  void* lazy = load("liblazy_user.so", RTLD_LAZY);   // its lazy ones do not
  errno = 4242;
  engine().rescan();
  CHECK(errno == 4242, "errno is %d", errno);
  ImageReport report = report_of("libbound_user.so");
  CHECK(report.found && report.patched == 0, "%u slots were patched", report.patched);
  for (const char* name : {"malloc", "free", "calloc"}) {
    CHECK(report.skips(name, "could not be made writable"), "nothing is said about %s", name);
  }
  CHECK(report_of("liblazy_user.so").patched >= 3, "what can be written was not");

  Since start;
  auto* put = symbol<void(void*)>(bound, "user_put");
  put(symbol<void*(size_t)>(bound, "user_get")(1000));
  CHECK(start.nothing(), "its slots were written after all");
  CHECK(symbol<int(size_t)>(lazy, "user_work")(1000), "calloc");
  CHECK(start.allocated() >= 1000 && start.live() == 0, "the other one is not counted");
  return 0;
}
