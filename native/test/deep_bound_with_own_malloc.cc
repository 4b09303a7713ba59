// A library opened with RTLD_DEEPBIND whose dependency brings its own malloc. Its lazy stubs hide
// that they lead there; patching one would hand the process's blocks to the other free, which
// aborts. (DataDog/ddprof issue 446, gperftools issue 1148, falco issue 3704.)
#include <initializer_list>

#include "books.h"

namespace {

constexpr char kLibrary[] = "libdeep_bound_user.so";
constexpr size_t kSize = 4000;

void check_left() {
  Since start;
  void* handle = load(kLibrary, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
  auto* get = symbol<void*(size_t)>(handle, "user_get");
  auto* put = symbol<void(void*)>(handle, "user_put");
  auto* work = symbol<int(size_t)>(handle, "user_work");
  engine().rescan();
  ImageReport report = report_of(kLibrary);
  CHECK(report.found, "the library is not reported");
  CHECK(report.patched == 0, "%u slots were patched", report.patched);
  for (const char* name : {"malloc", "free"}) {
    CHECK(report.skips(name, "malloc of its own"), "nothing is said about %s", name);
  }
  put(get(kSize));  // binds the stubs, to the other allocator
  CHECK(work(kSize), "calloc");
  engine().rescan();
  put(get(kSize));
  CHECK(work(kSize), "calloc");
  report = report_of(kLibrary);
  CHECK(report.patched == 0, "%u slots were patched later", report.patched);
  CHECK(start.live() < static_cast<int64_t>(kSize), "the other allocator's blocks were booked");
}

// The same code without such a dependency is counted.
void check_plain() {
  void* handle = load("liblazy_user.so", RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
  auto* get = symbol<void*(size_t)>(handle, "user_get");
  auto* put = symbol<void(void*)>(handle, "user_put");
  engine().rescan();
  CHECK(report_of("liblazy_user.so").patched >= 3, "a lazily bound library was not patched");
  Since start;
  void* block = get(kSize);
  CHECK(start.allocated() == block_size(block), "the library's malloc is not counted");
  put(block);
  CHECK(start.freed() == start.allocated(), "the library's free is not counted");
}

}  // namespace

int main() {
  start_counting();
  check_left();
  check_plain();
  return 0;
}
