// Any jemalloc in the process, preloaded or inside a module, under whatever prefix.
#pragma once

#include "allocators/allocator.h"
#include "callsites/elf_image.h"

namespace oom_guard {

class Jemalloc {
 public:
  // The jemalloc that an image exports; false when it exports none.
  static bool find(const ElfImage& image, Jemalloc* out);

  // What stands before `mallctl`: "", "je_", "duckdb_je_" ...
  const char* prefix() const { return prefix_; }

  // Counts into `allocator` through experimental.hooks.install, which exists in 5.2.0 to 5.3.1.
  // False when it is missing, refused, or all four hook slots are taken; *why then says which.
  // Hooks are never removed, but for switch_hooks(): removal does not wait for calls in flight.
  bool install_hooks(Allocator* allocator, const char** why);
  // For benchmarks only: takes installed hooks out, or puts them back. The books are wrong
  // afterwards. Nothing happens where none were installed.
  void switch_hooks(bool on);

  // Bytes the application holds: stats.allocated less what lies in thread caches and what jemalloc
  // uses for itself. Takes arena locks; 10 to 20 microseconds and, seen in the wild, over a second.
  bool in_use(uint64_t* bytes) const;

  // Whether its heap profiler is on (opt.prof), and how many bytes are allocated between two of its
  // samples. Each sampled block lies in pages of its own: in_use() counts those.
  bool profiles(uint64_t* bytes_per_sample) const;

  // Gives dirty pages of all arenas back to the kernel.
  void purge() const;

 private:
  using Mallctl = int (*)(const char*, void*, size_t*, void*, size_t);

  int put_hooks();

  static constexpr size_t kMaxPrefix = 32;
  char prefix_[kMaxPrefix] = "";
  Mallctl mallctl_ = nullptr;
  size_t (*usable_size_)(void*) = nullptr;
  void* hook_context_ = nullptr;  // of the hooks that were installed
  void* hook_handle_ = nullptr;   // what jemalloc calls them by while they are
};

}  // namespace oom_guard
