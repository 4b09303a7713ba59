// More libraries than the table of images holds, and more allocators than there is room for: what
// is left out is said.
#include <sys/stat.h>

#include "books.h"

namespace {

// A copy of a library that the loader takes for another one.
void* load_copy(const char* library, int number) {
  char text[65536], copy[64];
  snprintf(copy, sizeof(copy), "copies/%d_%d_%s", static_cast<int>(getpid()), number, library);
  mkdir(beside("copies"), 0777);
  FILE* from = fopen(beside(library), "r");
  FILE* to = fopen(beside(copy), "w");
  CHECK(from != nullptr && to != nullptr, "%s cannot be copied", library);
  for (size_t size; (size = fread(text, 1, sizeof(text), from)) != 0;) fwrite(text, 1, size, to);
  fclose(from);
  fclose(to);
  void* handle = load(copy, RTLD_NOW);
  unlink(beside(copy));
  return handle;
}

}  // namespace

int main() {
  start_counting();
  for (int n = 0; n < 45; ++n) load_copy("libembedded_jemalloc.so", n);
  engine().rescan();
  CHECK(engine().allocator_count() == 40, "%u allocators", engine().allocator_count());
  unsigned noted = 0;
  engine().each_image(
      [](void* count, const oom_guard::EngineImage& image) {
        *static_cast<unsigned*>(count) += strstr(image.note, "room for no more") != nullptr;
      },
      &noted);
  CHECK(noted == 6, "%u allocators are said to be left out", noted);

  CHECK(!tells_gap("loaded libraries"), "images were left out already");
  for (int n = 0; n < 1100; ++n) load_copy("libbound_user.so", n);
  engine().rescan();
  CHECK(tells_gap("loaded libraries"), "nothing is said of those that are left out");
  return 0;
}
