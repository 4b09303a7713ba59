#include "allocators/jemalloc.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "callsites/large_allocations.h"

namespace oom_guard {
namespace {

// The interface of experimental.hooks, jemalloc 5.2.0 to 5.3.1 (include/jemalloc/internal/hook.h).
using AllocHook = void (*)(void* extra, int type, void* result, uintptr_t result_raw,
                           uintptr_t args_raw[3]);
using DallocHook = void (*)(void* extra, int type, void* address, uintptr_t args_raw[3]);
using ExpandHook = void (*)(void* extra, int type, void* address, size_t old_usable,
                            size_t new_usable, uintptr_t result_raw, uintptr_t args_raw[4]);
struct Hooks {
  AllocHook alloc;
  DallocHook dalloc;
  ExpandHook expand;
  void* extra;
};
constexpr int kTypePosixMemalign = 1;

// What one installed set of hooks needs. Its address is the hooks' `extra`, so it lives for ever.
struct HookContext {
  size_t (*usable_size)(void*);
  Shards* shards;
};
constexpr unsigned kMaxContexts = 16;
HookContext g_contexts[kMaxContexts];
unsigned g_context_count;  // under the registry's lock

// The event carries the requested size only, so the usable one is asked for; jemalloc allows it.
void on_alloc(void* extra, int type, void* result, uintptr_t result_raw, uintptr_t*) {
  // A posix_memalign that failed comes here too, with whatever stood in *memptr; its raw result is
  // the error. For all others the raw result is the pointer.
  bool succeeded = type == kTypePosixMemalign ? result_raw == 0
                                              : result_raw == reinterpret_cast<uintptr_t>(result);
  if (result == nullptr || !succeeded) return;
  auto* context = static_cast<HookContext*>(extra);
  const size_t bytes = context->usable_size(result);
  context->shards->book_allocated(bytes);
  note_allocation(bytes);
}

// Comes before the block is freed.
void on_dalloc(void* extra, int, void* address, uintptr_t*) {
  auto* context = static_cast<HookContext*>(extra);
  context->shards->book_freed(context->usable_size(address));
}

void on_expand(void* extra, int, void*, size_t old_usable, size_t new_usable, uintptr_t,
               uintptr_t*) {
  if (old_usable == new_usable) return;
  static_cast<HookContext*>(extra)->shards->book_resized(old_usable, new_usable);
}

}  // namespace

bool Jemalloc::find(const ElfImage& image, Jemalloc* out) {
  constexpr char kSuffix[] = "mallctl";
  constexpr size_t kSuffixLength = sizeof(kSuffix) - 1;
  auto take = [&](const char* name) {
    uintptr_t mallctl = image.find_defined(name);
    size_t length = strlen(name) - kSuffixLength;
    if (mallctl == 0 || length >= kMaxPrefix) return false;
    char usable_name[kMaxPrefix + 32];
    memcpy(out->prefix_, name, length);
    out->prefix_[length] = '\0';
    snprintf(usable_name, sizeof(usable_name), "%smalloc_usable_size", out->prefix_);
    uintptr_t usable = image.find_defined(usable_name);
    if (usable == 0) return false;
    out->mallctl_ = reinterpret_cast<Mallctl>(mallctl);
    out->usable_size_ = reinterpret_cast<size_t (*)(void*)>(usable);
    return true;
  };
  for (const char* name = nullptr;
       (name = image.next_name_with_suffix(kSuffix, name)) != nullptr;) {
    // The linker may have merged the tails of several names into one; the longest comes first.
    for (const char* at = name; strlen(at) >= kSuffixLength; ++at) {
      if (take(at)) return true;
    }
  }
  return false;
}

bool Jemalloc::install_hooks(Allocator* allocator, const char** why) {
  if (g_context_count == kMaxContexts) {
    *why = "too many allocators";
    return false;
  }
  HookContext* context = &g_contexts[g_context_count];
  *context = {usable_size_, allocator->shards};
  hook_context_ = context;
  const int error = put_hooks();
  if (error == 0) {
    ++g_context_count;
    return true;
  }
  hook_context_ = nullptr;
  *why = error == EAGAIN ? "all four of this jemalloc's hook slots are taken"
         : error == ENOENT
             ? "this jemalloc has no experimental.hooks (they exist in 5.2.0 to 5.3.1)"
             : "this jemalloc refused the hooks";
  return false;
}

int Jemalloc::put_hooks() {
  Hooks hooks = {on_alloc, on_dalloc, on_expand, hook_context_};
  size_t handle_size = sizeof(hook_handle_);
  return mallctl_("experimental.hooks.install", &hook_handle_, &handle_size, &hooks, sizeof(hooks));
}

void Jemalloc::switch_hooks(bool on) {
  if (hook_context_ == nullptr || on == (hook_handle_ != nullptr)) return;
  if (on) {
    put_hooks();
  } else {
    mallctl_("experimental.hooks.remove", nullptr, nullptr, &hook_handle_, sizeof(hook_handle_));
    hook_handle_ = nullptr;
  }
}

bool Jemalloc::in_use(uint64_t* bytes) const {
  uint64_t epoch = 1;
  size_t size = sizeof(epoch);
  if (mallctl_("epoch", &epoch, &size, &epoch, sizeof(epoch)) != 0) return false;
  auto read = [this](const char* name, size_t* value) {
    size_t value_size = sizeof(*value);
    return mallctl_(name, value, &value_size, nullptr, 0) == 0;
  };
  size_t allocated = 0;
  if (!read("stats.allocated", &allocated)) return false;
  // 4096 is MALLCTL_ARENAS_ALL: the statistics of all arenas together.
  size_t cached = 0, stashed = 0, internal = 0;
  if (!read("stats.arenas.4096.tcache_bytes", &cached)) return false;
  read("stats.arenas.4096.tcache_stashed_bytes", &stashed);  // since 5.3.0
  if (!read("stats.arenas.4096.internal", &internal)) return false;
  size_t own = cached + stashed + internal;
  *bytes = allocated > own ? allocated - own : 0;
  return true;
}

bool Jemalloc::profiles(uint64_t* bytes_per_sample) const {
  bool on = false;
  size_t on_size = sizeof(on);
  if (mallctl_("opt.prof", &on, &on_size, nullptr, 0) != 0 || !on) return false;
  // What is in force may have been changed since the start by prof.reset.
  size_t exponent = 0, exponent_size = sizeof(exponent);
  if (mallctl_("prof.lg_sample", &exponent, &exponent_size, nullptr, 0) != 0 || exponent > 62) {
    return false;
  }
  *bytes_per_sample = uint64_t{1} << exponent;
  return true;
}

void Jemalloc::purge() const {
  mallctl_("arena.4096.purge", nullptr, nullptr, nullptr, 0);
}

}  // namespace oom_guard
