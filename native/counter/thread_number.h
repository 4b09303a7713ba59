// The kernel's number of the calling thread, without thread-local storage: a TLS access from a
// dlopened library may call into the loader, which may allocate, which would come back here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace oom_guard {

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

// Where the C library keeps that number, relative to the thread pointer. 0 until it is found.
extern ptrdiff_t g_thread_number_offset __attribute__((visibility("hidden")));

// The C library keeps the kernel's number of a thread in the block that the thread pointer points
// to. It looks for it in this thread and again in another one. Once, before anything is counted;
// false when it is not to be found: thread_number() then is a number that threads may share.
bool find_thread_numbers();

// Whether two threads that live at the same time never get the same number. (A child of vfork
// shares its parent's, which waits meanwhile.)
inline bool thread_numbers_are_unique() noexcept {
  return g_thread_number_offset != 0;
}

// The kernel gives numbers in order, so threads started together get neighbouring ones, and the low
// bits tell them apart. Hashing the address of the block instead has no such property: 20 threads
// whose stacks lie in two rows, as they do around the libraries, got as few as 10 of 64 numbers.
inline uint32_t thread_number() noexcept {
  uint32_t number;
#if defined(__x86_64__)
  __asm__("movl %%fs:(%1), %0" : "=r"(number) : "r"(g_thread_number_offset));
#else
  memcpy(&number, reinterpret_cast<const char*>(thread_pointer()) + g_thread_number_offset,
         sizeof(number));
#endif
  return number;
}

}  // namespace oom_guard
