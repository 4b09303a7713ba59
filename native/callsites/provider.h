// Who provides malloc in this process, and the original functions.
#pragma once

#include "callsites/elf_image.h"
#include "callsites/image_table.h"
#include "callsites/wrappers.h"

namespace oom_guard {

enum class ProviderKind : uint8_t { kUnknown, kGlibc, kJemalloc, kTcmalloc, kMimalloc, kOther };

const char* describe(ProviderKind kind);

struct Provider {
  ProviderKind kind = ProviderKind::kUnknown;
  bool is_libc = false;
  char path[ImageRecord::kMaxPath] = "";
  uintptr_t dynamic = 0;  // identifies its image
  AnyFn original[kFnCount] = {};
  UsableSizeFn usable_size = nullptr;
  // jemalloc's nallocx and mallctl.
  size_t (*size_of_request)(size_t, int) = nullptr;
  MallctlFn mallctl = nullptr;
  // The executable's stubs that stand for a function's address in every other image. Calls that
  // arrive there leave through the executable's own slot.
  uintptr_t executable_stub[kFnCount] = {};
  const char* problem = "";  // why nothing can be counted; "" when it can

  uintptr_t address(Fn fn) const { return reinterpret_cast<uintptr_t>(original[index_of(fn)]); }
};

// Reads it from the slots of the executable and of libc, never from dlsym: on Node 20 that yields
// Node's own stub, and under a preloaded allocator RTLD_NEXT yields libc's functions.
// (async-profiler, pull requests 1135 and 1323.)
void find_provider(const ImageTable& images, Provider* provider);

}  // namespace oom_guard
