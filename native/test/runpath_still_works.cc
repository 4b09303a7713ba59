// dlopen looks at the RUNPATH of the library that calls it. Wrapped by a function of another image,
// it would look at that one's. (openucx/ucx issue 4001, heaptrack pull request 48, memray 525.)
#include "books.h"

int main() {
  start_counting();
  void* outer = load("libruns_path.so");
  engine().rescan();
  CHECK(dlopen("libfound_by_runpath.so", RTLD_NOW) == nullptr, "it is found without the RUNPATH");
  void* inner = symbol<void*()>(outer, "runpath_open")();
  CHECK(inner != nullptr, "the RUNPATH is not looked at: %s", dlerror());
  engine().rescan();
  Since start;
  CHECK(symbol<int(size_t)>(inner, "user_work")(1000), "it does not work");
  CHECK(start.allocated() >= 1000 && start.live() == 0, "it is not counted");
  return 0;
}
