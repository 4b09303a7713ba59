// The kernel's number of the calling thread, without thread-local storage: a TLS access from a
// dlopened library may call into the loader, which may allocate, which would come back here.
#pragma once

#include <cstdint>

namespace oom_guard {

// The C library keeps the kernel's number of a thread in the block that the thread pointer points
// to; with glibc on x86-64 at this distance. Looked at, in this thread and in another one, by
// check_thread_numbers(); a constant, because looking it up would cost a wrapper half of what the
// number costs.
#if defined(__x86_64__)
constexpr bool kReadsThreadNumbers = true;
constexpr int kThreadNumberOffset = 0x2d0;
#elif defined(__aarch64__)
constexpr bool kReadsThreadNumbers = false;
#else
#error "no thread pointer for this architecture"
#endif

// The kernel gives numbers in order, so threads started together get neighbouring ones, and the low
// bits tell them apart. Hashing the address of the block instead has no such property: 20 threads
// whose stacks lie in two rows, as they do around the libraries, got as few as 10 of 64 numbers.
//
// Where it cannot be read this way, a number that threads may share.
inline uint32_t thread_number() noexcept {
#if defined(__x86_64__)
  uint32_t number;
  __asm__("movl %%fs:%c1, %0" : "=r"(number) : "i"(kThreadNumberOffset));
  return number;
#else
  uintptr_t pointer;
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
  return static_cast<uint32_t>((static_cast<uint64_t>(pointer >> 12) * 0x9E3779B97F4A7C15ull) >>
                               32);
#endif
}

inline uintptr_t thread_pointer() noexcept {
  uintptr_t pointer;
#if defined(__x86_64__)
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
  return pointer;
}

// Once, before anything is counted: whether thread_number() is the kernel's number of a thread.
bool check_thread_numbers();

// Whether a thread of this process has this number. One system call; keeps errno.
bool thread_lives(uint32_t number);

// Whether two threads that live at the same time never get the same number. (A child of vfork
// shares its parent's, which waits meanwhile.)
extern bool g_thread_numbers_are_unique __attribute__((visibility("hidden")));

}  // namespace oom_guard
