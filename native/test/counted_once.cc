// Every way to get a block is booked exactly once, with the block's own size, and so is every way
// to give it back. Twice where one function calls another through a patched slot (musl's calloc,
// glibc's reallocarray, libstdc++'s operator new): memray c4f69e23, async-profiler pull request
// 1235.
#include <netdb.h>

#include <new>
#include <string>

#include "books.h"

namespace {

using Get = void* (*)();
using Release = void (*)(void*);

void release(void* block) {
  free(block);
}
constexpr std::align_val_t kWide{256};

struct Case {
  const char* name;
  Get get;
  Release release;
};

const Case kCases[] = {
    {"malloc", [] { return malloc(100); }, release},
    {"malloc, large", [] { return malloc(300 << 10); }, release},
    {"calloc", [] { return calloc(7, 13); }, release},
    {"realloc", [] { return realloc(nullptr, 100); }, release},
    {"reallocarray", [] { return reallocarray(nullptr, 10, 30); }, release},
    {"posix_memalign",
     [] {
       void* block = nullptr;
       return posix_memalign(&block, 128, 300) == 0 ? block : nullptr;
     },
     release},
    {"aligned_alloc", [] { return aligned_alloc(128, 512); }, release},
    {"memalign", [] { return memalign(1024, 100); }, release},
    {"memalign, large", [] { return memalign(1 << 16, 3 << 20); }, release},
    {"valloc", [] { return valloc(100); }, release},
    {"strdup", []() -> void* { return strdup("inside the C library"); }, release},
    {"new, delete", [] { return ::operator new(100); }, [](void* b) { ::operator delete(b); }},
    {"new, sized delete", [] { return ::operator new(100); },
     [](void* b) { ::operator delete (b, size_t{100}); }},
    {"new[], delete[]", [] { return ::operator new[](100); },
     [](void* b) { ::operator delete[](b); }},
    {"new[], sized delete[]", [] { return ::operator new[](100); },
     [](void* b) { ::operator delete[](b, size_t{100}); }},
    {"new nothrow", [] { return ::operator new(100, std::nothrow); },
     [](void* b) { ::operator delete(b, std::nothrow); }},
    {"new[] nothrow", [] { return ::operator new[](100, std::nothrow); },
     [](void* b) { ::operator delete[](b, std::nothrow); }},
    {"new aligned", [] { return ::operator new(100, kWide); },
     [](void* b) { ::operator delete(b, kWide); }},
    {"new[] aligned", [] { return ::operator new[](100, kWide); },
     [](void* b) { ::operator delete[](b, kWide); }},
    {"new aligned, sized delete", [] { return ::operator new(512, kWide); },
     [](void* b) { ::operator delete (b, size_t{512}, kWide); }},
    {"new[] aligned, sized delete[]", [] { return ::operator new[](512, kWide); },
     [](void* b) { ::operator delete[](b, size_t{512}, kWide); }},
    {"new aligned nothrow", [] { return ::operator new(100, kWide, std::nothrow); },
     [](void* b) { ::operator delete(b, kWide, std::nothrow); }},
    {"new[] aligned nothrow", [] { return ::operator new[](100, kWide, std::nothrow); },
     [](void* b) { ::operator delete[](b, kWide, std::nothrow); }},
};

void check_case(const Case& one) {
  one.release(one.get());  // binds what is bound at the first call
  Since getting;
  void* block = one.get();
  CHECK(block != nullptr, "%s failed", one.name);
  size_t size = block_size(block);
  CHECK(getting.allocated() == size && getting.freed() == 0,
        "%s: a block of %zu bytes booked as +%llu -%llu", one.name, size,
        (unsigned long long)getting.allocated(), (unsigned long long)getting.freed());
  CHECK(getting.allocator_agrees(), "%s: glibc's own statistics moved otherwise", one.name);
  Since releasing;
  one.release(block);
  CHECK(releasing.allocated() == 0 && releasing.freed() == size,
        "%s: the release of %zu bytes booked as +%llu -%llu", one.name, size,
        (unsigned long long)releasing.allocated(), (unsigned long long)releasing.freed());
  CHECK(getting.allocator_agrees(), "%s: glibc's own statistics moved otherwise", one.name);
}

// std::string's code lies inside libstdc++, which defines operator new and calls it through a slot
// of its own that is bound late.
void check_inside_libstdcxx() {
  for (int round = 0; round < 2; ++round) {
    Since start;
    {
      std::string text;
      text.resize(1000);
      CHECK(start.live() == static_cast<int64_t>(block_size(text.data())),
            "a string's block of %zu bytes booked as +%llu -%llu", block_size(text.data()),
            (unsigned long long)start.allocated(), (unsigned long long)start.freed());
      text.resize(100000);
      CHECK(start.live() == static_cast<int64_t>(block_size(text.data())), "a larger string");
    }
    CHECK(start.live() == 0, "a string: %lld bytes are left", (long long)start.live());
  }
}

// A provider that does not define this name leaves it to libc, whose blocks it could not free.
bool provider_has(const char* name) {
  Dl_info owner, other;
  void* function = dlsym(RTLD_DEFAULT, name);
  return function != nullptr && dladdr(function, &other) != 0 &&
         dladdr(dlsym(RTLD_DEFAULT, "malloc"), &owner) != 0 && owner.dli_fbase == other.dli_fbase;
}

void check_getline() {
  char text[] = "first\nsecond\n";
  FILE* file = fmemopen(text, sizeof(text) - 1, "r");
  ungetc(getc(file), file);  // the stream has its own buffer now
  Since reading;
  char* line = nullptr;
  size_t room = 0;
  CHECK(getline(&line, &room, file) == 6, "no line");
  CHECK(reading.allocated() - reading.freed() == block_size(line), "getline's buffer");
  CHECK(reading.allocator_agrees(), "glibc's own statistics moved otherwise");
  free(line);
  CHECK(reading.live() == 0, "getline's buffer: %lld bytes are left", (long long)reading.live());
  fclose(file);
}

void check_getaddrinfo() {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  for (int round = 0; round < 2; ++round) {
    Since resolving;
    addrinfo* list = nullptr;
    CHECK(getaddrinfo("127.0.0.1", "80", &hints, &list) == 0, "no address");
    uint64_t held = 0;
    for (addrinfo* at = list; at != nullptr; at = at->ai_next) {
      held += block_size(at);  // the address itself lies in the same block
      if (at->ai_canonname != nullptr) held += block_size(at->ai_canonname);
    }
    int64_t live = resolving.live();
    bool agrees = resolving.allocator_agrees();
    freeaddrinfo(list);
    if (round == 0) continue;  // the first one loads what name resolution needs
    CHECK(live == static_cast<int64_t>(held), "getaddrinfo holds %llu bytes, %lld are booked",
          (unsigned long long)held, (long long)live);
    CHECK(agrees, "glibc's own statistics moved otherwise");
    CHECK(resolving.live() == 0, "freeaddrinfo: %lld bytes are left", (long long)resolving.live());
  }
}

void check_open_memstream() {
  for (int round = 0; round < 2; ++round) {
    Since writing;
    char* text = nullptr;
    size_t size = 0;
    FILE* file = open_memstream(&text, &size);
    for (int i = 0; i < 1000; ++i) fprintf(file, "line %d\n", i);
    fclose(file);
    CHECK(writing.live() == static_cast<int64_t>(block_size(text)), "open_memstream's buffer");
    free(text);
    CHECK(writing.live() == 0, "open_memstream: %lld bytes are left", (long long)writing.live());
  }
}

}  // namespace

int main() {
  start_counting();
  for (const Case& one : kCases) check_case(one);
  if (provider_has("pvalloc")) check_case({"pvalloc", [] { return pvalloc(100); }, release});
  check_inside_libstdcxx();
  check_getline();
  check_getaddrinfo();
  check_open_memstream();
  return 0;
}
