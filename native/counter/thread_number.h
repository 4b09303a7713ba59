// A small number for the calling thread, different for threads that live at the same time as far as
// possible, without thread-local storage: a TLS access from a dlopened library may call into the
// loader, which may allocate, which would come back here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace oom_guard {

constexpr unsigned kThreadNumberBits = 6;

inline uintptr_t thread_pointer() noexcept {
#if defined(__x86_64__)
  uintptr_t tp;
  __asm__("mov %%fs:0, %0" : "=r"(tp));
  return tp;
#elif defined(__aarch64__)
  uintptr_t tp;
  __asm__("mrs %0, tpidr_el0" : "=r"(tp));
  return tp;
#else
#error "no thread pointer for this architecture"
#endif
}

// Where to look, relative to the thread pointer, and what to multiply by. At first: the thread
// pointer itself, hashed.
struct ThreadNumbering {
  ptrdiff_t offset;
  uint32_t multiplier;
};
extern ThreadNumbering g_thread_numbering __attribute__((visibility("hidden")));

// The C library keeps the kernel's number of a thread in the block that the thread pointer points
// to. The kernel gives numbers in order, so threads started together get neighbouring ones, and the
// low bits tell them apart. Hashing the address of the block instead has no such property: 20
// threads whose stacks lie in two rows, as they do around the libraries, got as few as 10 of 64
// numbers.
//
// Finds where that number is, by looking for it in this thread and again in another one. Once,
// before anything is counted; false when it is not to be found, and the address is hashed after
// all.
bool find_thread_numbers();

inline unsigned thread_number() noexcept {
  uint32_t seed;
  memcpy(&seed, reinterpret_cast<const char*>(thread_pointer()) + g_thread_numbering.offset,
         sizeof(seed));
  return (seed * g_thread_numbering.multiplier) >> (32 - kThreadNumberBits);
}

}  // namespace oom_guard
