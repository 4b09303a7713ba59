// A slot in a segment that is not writable is left and reported, not written into.
#include "books.h"

int main() {
  start_counting();
  CHECK(dlopen("libtext_relocation_library.so", RTLD_NOW) != nullptr, "%s", dlerror());
  engine().rescan();
  ImageReport report = report_of("libtext_relocation_library");
  CHECK(report.found, "the library is not listed");
  CHECK(report.skips("posix_memalign", "could not be made writable"), "its slot is not reported");
  return 0;
}
