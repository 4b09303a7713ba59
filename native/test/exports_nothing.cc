// A library that exports nothing, and has hash tables of both kinds: the newer one is empty and
// says that it begins at the first symbol, though all imports stand there.
#include "books.h"

int main() {
  start_counting();
  load("libexports_nothing.so", RTLD_NOW);
  engine().rescan();
  ImageReport report = report_of("libexports_nothing.so");
  CHECK(report.found && report.patched == 2, "%u slots were patched", report.patched);
  return 0;
}
