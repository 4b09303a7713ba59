// Two copies of the engine in one process (two versions of a package, a copy for a Worker), each
// hidden from the other by RTLD_LOCAL: one of them counts, and both know which. Two that count
// write the same slots, and everything is booked twice or not at all.
//   two_copies <library> [<library>...] [foreign | foreign-started]
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "books.h"
#include "engine/engine.h"

namespace {

using oom_guard::EngineApi;

struct Copy {
  void* handle;
  const EngineApi* own;
  const EngineApi* found() const {
    return symbol<const EngineApi*()>(handle, "probe_find_engine")();
  }
};

Copy open_copy(const char* name) {
  void* handle = load(name, RTLD_NOW | RTLD_LOCAL);
  return {handle, static_cast<const EngineApi*>(dlsym(handle, "oom_guard_engine_api"))};
}

int64_t counted(const EngineApi* api) {
  return api->started() ? api->live() : 0;
}

void check_counted_once(const EngineApi* engine, const Copy* copies, int count) {
  int64_t before = 0, after = 0;
  engine->rescan();
  engine->rescan();
  for (int i = 0; i < count; ++i) before += counted(copies[i].own);
  void* block = malloc(100000);
  for (int i = 0; i < count; ++i) after += counted(copies[i].own);
  auto size = static_cast<int64_t>(malloc_usable_size(block));
  CHECK(after - before >= size && after - before <= size + 64, "%lld bytes counted as %lld",
        (long long)size, (long long)(after - before));
  free(block);
}

void* start(void* api) {
  static_cast<const EngineApi*>(api)->start(true, 0);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bool foreign = false, foreign_started = false;
  Copy copies[4] = {};
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "foreign", 7) == 0) {
      foreign = true;
      foreign_started = strcmp(argv[i], "foreign-started") == 0;
      void* handle = load("libtwo_copies_foreign.so", RTLD_NOW | RTLD_LOCAL);
      symbol<void(bool)>(handle, "foreign_set_started")(foreign_started);
      continue;
    }
    copies[count++] = open_copy(argv[i]);
  }
  if (foreign_started && strncmp(argv[1], "foreign", 7) == 0) {
    for (int i = 0; i < count; ++i) {
      CHECK(copies[i].found() == nullptr, "a second engine beside one that counts already");
    }
    return 0;
  }
  const EngineApi* engine = copies[0].found();
  CHECK(engine == copies[0].own, "the first copy is not the one that is used");
  for (int i = 0; i < count; ++i) {
    CHECK(copies[i].found() == engine, "copy %d would use another engine%s", i,
          foreign ? " beside a foreign one" : "");
  }
  // The last one asks first, from several threads at once.
  const EngineApi* asked = copies[count - 1].found();
  pthread_t starters[4];
  for (pthread_t& starter : starters) {
    pthread_create(&starter, nullptr, start, const_cast<EngineApi*>(asked));
  }
  for (pthread_t starter : starters) pthread_join(starter, nullptr);
  for (int i = 0; i < count; ++i) {
    CHECK(copies[i].own->started() == (i == 0), "copy %d", i);
  }
  check_counted_once(engine, copies, count);

  // One that comes when counting has begun.
  CHECK(count < 4, "too many copies");
  copies[count] = open_copy("libengine_copy_c.so");
  CHECK(copies[count].found() == engine, "a late copy would use another engine");
  check_counted_once(engine, copies, count + 1);
  return 0;
}
