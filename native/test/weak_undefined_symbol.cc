// A weak symbol that nobody defines is a question, and its NULL slot the answer. A patched one lets
// the library call what is not there. (DataDog/ddprof pull request 348.)
#include <initializer_list>

#include "books.h"

namespace {

void check_answers(void* handle) {
  // The version that the library was linked with is gone, though the process has another valloc.
  CHECK(!symbol<int()>(handle, "weak_has_valloc")(), "valloc appeared");
  for (const char* name : {"free_sized", "free_aligned_sized"}) {
    char question[64];
    snprintf(question, sizeof(question), "weak_has_%s", name);
    bool exists = dlsym(RTLD_DEFAULT, name) != nullptr;
    CHECK(symbol<int()>(handle, question)() == exists, "%s", name);
  }
}

}  // namespace

int main() {
  start_counting();
  CHECK(dlsym(RTLD_DEFAULT, "valloc") != nullptr, "this libc has no valloc");
  void* handle = load("libweak_user.so", RTLD_NOW);
  check_answers(handle);
  engine().rescan();
  check_answers(handle);
  ImageReport report = report_of("libweak_user.so");
  CHECK(report.patched >= 2, "only %u slots were patched", report.patched);
  CHECK(report.skips("valloc", "weak"), "the NULL slot is not reported");
  Since start;
  CHECK(symbol<int(size_t)>(handle, "weak_work")(1000) == 1, "it does not work");
  CHECK(start.allocated() >= 1000 && start.live() == 0, "its blocks are not counted");
  return 0;
}
