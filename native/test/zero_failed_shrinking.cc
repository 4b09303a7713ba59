// Calls whose effect on the books is easily got wrong: sizes of zero, calls that fail, blocks that
// grow and shrink, blocks with a mapping of their own. And errno is what the original leaves there.
#include <initializer_list>

#include "books.h"

namespace {

volatile size_t kHuge = SIZE_MAX / 2;  // volatile: the compiler knows that this cannot work
constexpr int kUntouched = 4242;

void check_zero() {
  Since start;
  void* block = malloc(0);
  if (block != nullptr) {
    CHECK(start.allocated() == block_size(block), "malloc(0) owns %zu bytes, +%llu",
          block_size(block), (unsigned long long)start.allocated());
  }
  free(block);
  CHECK(start.live() == 0, "malloc(0), free");
  free(nullptr);

  block = calloc(0, 0);
  block = realloc(block, 10);
  size_t size = block_size(block);
  CHECK(start.live() == static_cast<int64_t>(size), "calloc(0, 0), realloc(10)");
  Since zeroed;
  void* left = realloc(block, 0);
  if (left == nullptr) {
    // glibc and tcmalloc: that was a free.
    CHECK(zeroed.allocated() == 0 && zeroed.freed() == size, "realloc(block, 0) is a free");
  } else {
    CHECK(zeroed.live() == static_cast<int64_t>(block_size(left)) - static_cast<int64_t>(size),
          "realloc(block, 0) gave a small block");
    free(left);
  }
  CHECK(start.live() == 0, "realloc(block, 0): %lld bytes are left", (long long)start.live());

  block = malloc(100);
  left = reallocarray(block, 0, 8);
  free(left);
  CHECK(start.live() == 0, "reallocarray(block, 0, 8): %lld bytes", (long long)start.live());
  CHECK(start.allocator_agrees(), "glibc's own statistics moved otherwise");
}

void check_failed() {
  void* block = malloc(100);
  size_t size = block_size(block);
  void* out = block;
  Since start;
  CHECK(malloc(kHuge) == nullptr, "malloc of half the address space");
  CHECK(start.nothing(), "a failed malloc was booked");
  CHECK(calloc(kHuge, 16) == nullptr && calloc(1, kHuge) == nullptr, "calloc");
  CHECK(start.nothing(), "a failed calloc was booked");
  CHECK(realloc(block, kHuge) == nullptr, "realloc");
  CHECK(start.nothing(), "a failed realloc was booked");
  CHECK(reallocarray(block, kHuge, 16) == nullptr, "reallocarray");
  CHECK(reallocarray(nullptr, kHuge, 16) == nullptr, "reallocarray");
  CHECK(start.nothing(), "a failed reallocarray was booked");
  // What stands in *out is not a result then.
  CHECK(posix_memalign(&out, 3, 100) == EINVAL, "posix_memalign with a bad alignment");
  CHECK(posix_memalign(&out, 64, kHuge) == ENOMEM, "posix_memalign of half the address space");
  CHECK(start.nothing(), "a failed posix_memalign was booked: +%llu -%llu",
        (unsigned long long)start.allocated(), (unsigned long long)start.freed());
  CHECK(memalign(64, kHuge) == nullptr && aligned_alloc(64, kHuge) == nullptr, "memalign");
  CHECK(start.nothing(), "a failed memalign was booked");
  CHECK(start.allocator_agrees(), "glibc's own statistics moved otherwise");
  free(block);
  CHECK(start.freed() == size, "the block that a failed realloc left");
}

void check_resized() {
  constexpr size_t kSizes[] = {40, 400, 8 << 20, 9 << 20,  7 << 20, 300 << 10, 2 << 20, 100000,
                               24, 1,   5000,    64 << 20, 1 << 10, 1 << 20,   25};
  Since start;
  void* block = malloc(1);
  for (size_t size : kSizes) {
    block = realloc(block, size);
    CHECK(start.live() == static_cast<int64_t>(block_size(block)),
          "after realloc to %zu: a block of %zu bytes, %lld are booked", size, block_size(block),
          (long long)start.live());
    CHECK(start.allocator_agrees(), "glibc's own statistics moved otherwise after %zu", size);
  }
  for (size_t alignment = 64; alignment <= 4 << 20; alignment *= 4) {
    Since aligned;
    void* big =
        memalign(alignment, 5 << 20);  // with glibc a mapping, and what lies before the block
    CHECK(aligned.live() == static_cast<int64_t>(block_size(big)), "memalign(%zu)", alignment);
    CHECK(aligned.allocator_agrees(), "glibc's own statistics moved otherwise at %zu", alignment);
    big = realloc(big, 20 << 20);
    CHECK(aligned.live() == static_cast<int64_t>(block_size(big)), "and realloc, %zu", alignment);
    CHECK(aligned.allocator_agrees(), "glibc's own statistics moved otherwise at %zu", alignment);
    free(big);
    CHECK(aligned.live() == 0, "memalign(%zu): %lld bytes are left", alignment,
          (long long)aligned.live());
  }
  free(block);
  CHECK(start.live() == 0, "%lld bytes are left", (long long)start.live());
}

// The functions as they are before counting starts. (dlsym finds others than the slots hold: not
// those of glibc's debugging library, which have an old version only.)
struct Plain {
  decltype(&::malloc) malloc = ::malloc;
  decltype(&::calloc) calloc = ::calloc;
  decltype(&::realloc) realloc = ::realloc;
  decltype(&::memalign) memalign = ::memalign;
  decltype(&::posix_memalign) posix_memalign = ::posix_memalign;
  decltype(&::free) free = ::free;
};

// A function reached as it was, and through this program's slot, which counts by now: both must
// leave the same errno.
template <class Function, class Call>
void check_errno(const char* name, Function* plain, Function* counted, Call call) {
  errno = kUntouched;
  call(plain);
  int expected = errno;
  errno = kUntouched;
  call(counted);
  CHECK(errno == expected, "%s leaves errno %d, counted %d", name, expected, errno);
}

void check_errnos(const Plain& plain) {
  for (size_t size : {size_t{0}, size_t{100}, size_t{5} << 20, size_t{kHuge}}) {
    check_errno("malloc", plain.malloc, ::malloc, [&](auto* f) {
      void* block = f(size);
      int left = errno;
      free(block);
      errno = left;
    });
    check_errno("calloc", plain.calloc, ::calloc, [&](auto* f) {
      void* block = f(2, size);
      int left = errno;
      free(block);
      errno = left;
    });
    check_errno("realloc", plain.realloc, ::realloc, [&](auto* f) {
      void* block = malloc(10);
      errno = kUntouched;
      void* larger = f(block, size);
      int left = errno;
      free(larger != nullptr || size == 0 ? larger : block);
      errno = left;
    });
    check_errno("memalign", plain.memalign, ::memalign, [&](auto* f) {
      void* block = f(64, size);
      int left = errno;
      free(block);
      errno = left;
    });
    check_errno("posix_memalign", plain.posix_memalign, ::posix_memalign, [&](auto* f) {
      void* block = nullptr;
      if (f(&block, 64, size) != 0) block = nullptr;
      int left = errno;
      free(block);
      errno = left;
    });
  }
  check_errno("posix_memalign", plain.posix_memalign, ::posix_memalign, [](auto* f) {
    void* block = nullptr;
    f(&block, 3, 10);
  });
  for (size_t size : {size_t{10}, size_t{5} << 20}) {
    check_errno("free", plain.free, ::free, [&](auto* f) {
      void* block = malloc(size);
      errno = kUntouched;
      f(block);
    });
  }
}

}  // namespace

int main() {
  const Plain plain = {};
  start_counting();
  free(malloc(kHuge));  // has glibc make a second arena, which counts as in use, to try that
  for (int round = 0; round < 2; ++round) {
    check_zero();
    check_failed();
    check_resized();
  }
  check_errnos(plain);
  return 0;
}
