// Reading the books in a test: what one call booked, what one block weighs, what an image's report
// says.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <initializer_list>

#include "allocators/allocator.h"
#include "check.h"

// Ends the test because something is not installed: a skip, but a failure where all must run.
[[noreturn]] inline void missing(const char* what) {
  fprintf(stderr, "missing: %s\n", what);
  _exit(getenv("OOM_GUARD_TEST_ALL") != nullptr ? 1 : 77);
}

inline oom_guard::Mechanism mechanism_of(const oom_guard::EngineAllocator& allocator) {
  return static_cast<oom_guard::Mechanism>(allocator.mechanism);
}

// The allocator with this in its name or in its owner's path.
inline bool find_allocator(const char* text, oom_guard::EngineAllocator* out) {
  for (uint32_t i = 0; i < engine().allocator_count(); ++i) {
    engine().allocator(i, out);
    if (strstr(out->name, text) != nullptr || strstr(out->owner, text) != nullptr) return true;
  }
  return false;
}

inline bool is_loaded(const char* text) {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, size_t, void* wanted) {
               return static_cast<int>(strstr(info->dlpi_name, static_cast<char*>(wanted)) !=
                                       nullptr);
             },
             const_cast<char*>(text)) != 0;
}

// How a jemalloc is to be counted, as OOM_GUARD_TEST_JEMALLOC says: a JemallocChoice.
inline uint8_t jemalloc_choice() {
  const char* wanted = getenv("OOM_GUARD_TEST_JEMALLOC");
  uint8_t choice = 0;
  for (const char* name : {"auto", "callsites", "hooks", "stats"}) {
    if (wanted == nullptr || strcmp(wanted, name) == 0) return choice;
    ++choice;
  }
  CHECK(false, "no such choice: %s", wanted);
}

// Starts counting. ctest preloads allocators by their file names and says in OOM_GUARD_EXPECT which
// one must be found to provide malloc; where it is not installed, the loader only warned.
inline oom_guard::EngineAllocator start_counting() {
  engine().start(true, jemalloc_choice());
  // Images that were bound lazily are looked at a second time; not in the middle of a measurement.
  engine().rescan();
  engine().rescan();
  // The engine's own threads give back what they were started with; then they are quiet.
  for (Booked last, now = booked();;) {
    last = now;
    usleep(20000);
    now = booked();
    if (now.freed == last.freed && now.allocated == last.allocated) break;
  }
  oom_guard::EngineAllocator first;
  engine().allocator(0, &first);
  const char* expected = getenv("OOM_GUARD_EXPECT");
  if (expected != nullptr && strstr(first.name, expected) == nullptr &&
      strstr(first.owner, expected) == nullptr) {
    CHECK(strcmp(expected, "glibc") != 0 && !is_loaded(expected),
          "%s should provide malloc, but the engine says %s (%s)", expected, first.name,
          first.owner);
    missing(expected);
  }
  CHECK(mechanism_of(first) != oom_guard::Mechanism::kNone, "nothing is counted: %s", first.note);
  return first;
}

inline bool is_glibc() {
  oom_guard::EngineAllocator first;
  engine().allocator(0, &first);
  return strstr(first.name, "glibc") != nullptr;
}

// Whether mallinfo2 tells the truth: chunks in thread caches count as in use there.
inline bool caches_are_off() {
  const char* tunables = getenv("GLIBC_TUNABLES");
  return is_glibc() && tunables != nullptr && strstr(tunables, "tcache_count=0") != nullptr;
}

// What a block weighs in the books: the usable size; with glibc the whole chunk, which is 8 bytes
// more, or for a mapped chunk 16 and what lies before an aligned block.
inline size_t block_size(void* block) {
  size_t usable = malloc_usable_size(block);
  if (!is_glibc()) return usable;
  void* volatile hidden = block;  // from a compiler that knows where the block begins
  const size_t* header = static_cast<size_t*>(hidden) - 1;
  return (*header & 2) != 0 ? usable + 16 + header[-1] : usable + 8;
}

// What was booked since its construction, and by how much glibc's own statistics moved.
class Since {
 public:
  Since() : in_use_(in_use()), booked_(booked()) {}
  uint64_t allocated() const { return booked().allocated - booked_.allocated; }
  uint64_t freed() const { return booked().freed - booked_.freed; }
  int64_t live() const { return static_cast<int64_t>(allocated() - freed()); }
  bool nothing() const { return allocated() == 0 && freed() == 0; }
  // True as well where there are no exact statistics.
  bool allocator_agrees() const {
    return !caches_are_off() || live() == static_cast<int64_t>(in_use() - in_use_);
  }

 private:
  static uint64_t in_use() {
    uint64_t bytes = 0;
    if (caches_are_off()) engine().in_use(0, &bytes);
    return bytes;
  }
  uint64_t in_use_;
  Booked booked_;
};

// The engine's report on an image whose path contains `text`.
struct ImageReport {
  bool found = false;
  unsigned patched = 0, skipped = 0;
  char note[256] = "";
  oom_guard::EngineSkippedSlot slots[16] = {};

  bool skips(const char* name, const char* reason) const {
    for (const auto& slot : slots) {
      if (slot.name != nullptr && strcmp(slot.name, name) == 0 &&
          strstr(slot.reason, reason) != nullptr) {
        return true;
      }
    }
    return false;
  }
};

inline ImageReport report_of(const char* text) {
  struct Search {
    const char* text;
    ImageReport report;
  } search = {text, {}};
  engine().each_image(
      [](void* context, const oom_guard::EngineImage& image) {
        auto* to = static_cast<Search*>(context);
        if (strstr(image.path, to->text) == nullptr) return;
        to->report.found = true;
        to->report.patched = image.patched;
        to->report.skipped = image.skipped_count;
        snprintf(to->report.note, sizeof(to->report.note), "%s", image.note);
        memcpy(to->report.slots, image.skipped, sizeof(to->report.slots));
      },
      &search);
  return search.report;
}

// Whether the engine tells of something not counted in whose description `text` stands.
inline bool tells_gap(const char* text) {
  struct Search {
    const char* text;
    bool found;
  } search = {text, false};
  engine().each_gap(
      [](void* context, const char* what, const char* reason) {
        auto* to = static_cast<Search*>(context);
        if (strstr(what, to->text) || strstr(reason, to->text)) to->found = true;
      },
      &search);
  return search.found;
}

// The path of a file that lies beside the test program.
inline const char* beside(const char* name) {
  static thread_local char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 256);
  CHECK(length > 0, "no /proc");
  path[length] = '\0';
  snprintf(strrchr(path, '/') + 1, 256, "%s", name);
  return path;
}

// Loads a library that lies beside the test program, and a function of it.
inline void* load(const char* name, int flags = RTLD_LAZY) {
  void* handle = dlopen(beside(name), flags);
  CHECK(handle != nullptr, "%s", dlerror());
  return handle;
}

template <class Function>
Function* symbol(void* handle, const char* name) {
  void* address = dlsym(handle, name);
  CHECK(address != nullptr, "%s", dlerror());
  return reinterpret_cast<Function*>(address);
}
