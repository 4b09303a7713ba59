// Totals of freed bytes that are not what they seem: an allocator that has none, that keeps them
// where each thread has them elsewhere, or adds up something else. None of them is to be used.
// Those of a preloaded jemalloc are.
#include "books.h"
#include "callsites/freed_totals.h"

namespace {

constexpr size_t kHeader = 16;

thread_local uint64_t t_total;

// A block that knows its size, which is what was asked for, rounded up.
void* get(size_t bytes) {
  const size_t usable = (bytes + 15) & ~size_t{15};
  auto* block = static_cast<char*>(malloc(kHeader + usable));
  memcpy(block, &usable, sizeof(usable));
  return block + kHeader;
}

size_t usable_size(void* block) {
  size_t usable;
  memcpy(&usable, static_cast<char*>(block) - kHeader, sizeof(usable));
  return usable;
}

void release(void* block) {
  t_total += usable_size(block);
  free(static_cast<char*>(block) - kHeader);
}

void release_untold(void* block) {
  free(static_cast<char*>(block) - kHeader);
}

void release_large_untold(void* block) {
  if (usable_size(block) < 1 << 20) t_total += usable_size(block);
  free(static_cast<char*>(block) - kHeader);
}

void release_with_header(void* block) {
  t_total += kHeader;
  release(block);
}

int tell(uint64_t* total, const char* name, void* old, size_t* old_size) {
  CHECK(strcmp(name, "thread.deallocatedp") == 0 && *old_size == sizeof(total), "%s", name);
  memcpy(old, &total, sizeof(total));
  return 0;
}

int of_thread(const char* name, void* old, size_t* old_size, void*, size_t) {
  return tell(&t_total, name, old, old_size);
}

int of_none(const char*, void*, size_t*, void*, size_t) {
  return ENOENT;
}

// As jemalloc keeps it where there are no thread-local variables: somewhere in the heap.
thread_local uint64_t* t_in_heap;
int in_heap(const char* name, void* old, size_t* old_size, void*, size_t) {
  static int threads = 0;
  t_in_heap = static_cast<uint64_t*>(calloc(512, sizeof(uint64_t))) + 64 * threads++;
  return tell(t_in_heap, name, old, old_size);
}
void release_in_heap(void* block) {
  *t_in_heap += usable_size(block);
  free(static_cast<char*>(block) - kHeader);
}

}  // namespace

int main() {
  using oom_guard::find_freed_totals;
  const intptr_t distance = find_freed_totals({of_thread, get, release, usable_size});
  CHECK(distance == static_cast<intptr_t>(reinterpret_cast<uintptr_t>(&t_total) -
                                          oom_guard::thread_pointer()),
        "a total that is right is not taken");
  const uint64_t before = oom_guard::freed_total_at(distance);
  release(get(1000));
  CHECK(oom_guard::freed_total_at(distance) - before == 1008, "it is not read");

  CHECK(find_freed_totals({of_none, get, release, usable_size}) == 0, "there is none");
  CHECK(find_freed_totals({in_heap, get, release_in_heap, usable_size}) == 0,
        "it lies elsewhere in each thread");
  CHECK(find_freed_totals({of_thread, get, release_untold, usable_size}) == 0, "it stands still");
  CHECK(find_freed_totals({of_thread, get, release_large_untold, usable_size}) == 0,
        "it leaves out large blocks");
  CHECK(find_freed_totals({of_thread, get, release_with_header, usable_size}) == 0,
        "it has the headers in it");

  if (const char* expected = getenv("OOM_GUARD_EXPECT")) {
    auto* mallctl = reinterpret_cast<oom_guard::MallctlFn>(dlsym(RTLD_DEFAULT, "mallctl"));
    if (mallctl == nullptr) missing(expected);
    CHECK(find_freed_totals({mallctl, malloc, free, malloc_usable_size}) != 0,
          "jemalloc's own are not taken");
  }
  return 0;
}
