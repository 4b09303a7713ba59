// Native work that JavaScript alone cannot provoke, for the tests in test/: libraries loaded and
// unloaded, threads that live for a moment, threads that allocate until they are told to stop.
#include <dlfcn.h>
#include <node_api.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMaxThreads = 64;
constexpr int kAtOnce = 8;
constexpr int kHeld = 256;

std::atomic<bool> g_stop{false};
std::atomic<uint64_t> g_allocations{0};
pthread_t g_threads[kMaxThreads];
int g_thread_count = 0;

int64_t number_at(napi_env env, napi_value value) {
  int64_t number = 0;
  napi_get_value_int64(env, value, &number);
  return number;
}

// loadAndUnload(path, times): false when the loader refuses it.
napi_value load_and_unload(napi_env env, napi_callback_info info) {
  napi_value arguments[2], result;
  size_t count = 2;
  char path[4096];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  napi_get_value_string_utf8(env, arguments[0], path, sizeof(path), nullptr);
  bool loaded = true;
  for (int64_t left = number_at(env, arguments[1]); left > 0 && loaded; --left) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    loaded = library != nullptr;
    if (loaded) dlclose(library);
  }
  napi_get_boolean(env, loaded, &result);
  return result;
}

void* allocate_once(void*) {
  char* volatile block = static_cast<char*>(malloc(3000));
  if (block != nullptr) *block = 1;
  free(block);
  return nullptr;
}

// shortThreads(count): eight at a time, each ended before the next eight begin.
napi_value short_threads(napi_env env, napi_callback_info info) {
  napi_value argument, result;
  size_t count = 1;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  int64_t made = 0;
  for (int64_t left = number_at(env, argument); left > 0; left -= kAtOnce) {
    pthread_t threads[kAtOnce];
    int running = 0;
    while (running < kAtOnce && running < left &&
           pthread_create(&threads[running], nullptr, allocate_once, nullptr) == 0) {
      ++running;
    }
    for (int i = 0; i < running; ++i) pthread_join(threads[i], nullptr);
    made += running;
  }
  napi_create_int64(env, made, &result);
  return result;
}

// Small blocks mostly, and now and then one that glibc maps by itself.
void* allocate_until_stopped(void*) {
  void* held[kHeld] = {};
  uint32_t seed = 1;
  uint64_t turn = 0;
  while (!g_stop.load(std::memory_order_relaxed)) {
    seed = seed * 1664525u + 1013904223u;
    void*& place = held[turn % kHeld];
    free(place);
    size_t size = turn % 4096 == 0 ? 1u << 20 : 1 + (seed >> 20);
    place = turn % 3 == 0 ? calloc(1, size) : malloc(size);
    if (turn % 7 == 0) place = realloc(place, size + 100);
    ++turn;
  }
  for (void* block : held) free(block);
  g_allocations.fetch_add(turn);
  return nullptr;
}

// startAllocating(threads)
napi_value start_allocating(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t count = 1;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  int64_t wanted = number_at(env, argument);
  g_stop = false;
  while (g_thread_count < wanted && g_thread_count < kMaxThreads &&
         pthread_create(&g_threads[g_thread_count], nullptr, allocate_until_stopped, nullptr) ==
             0) {
    ++g_thread_count;
  }
  return nullptr;
}

// stopAllocating(): waits for the threads; how many blocks they allocated so far.
napi_value stop_allocating(napi_env env, napi_callback_info) {
  g_stop = true;
  while (g_thread_count > 0) pthread_join(g_threads[--g_thread_count], nullptr);
  napi_value result;
  napi_create_int64(env, static_cast<int64_t>(g_allocations.load()), &result);
  return result;
}

void** g_blocks = nullptr;
size_t g_block_count = 0;

// hold(blocks, size): allocates and keeps them; what was held before is freed.
napi_value hold(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  size_t count = 2;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  for (size_t i = 0; i < g_block_count; ++i) free(g_blocks[i]);
  free(g_blocks);
  g_blocks = nullptr;
  g_block_count = static_cast<size_t>(number_at(env, arguments[0]));
  const auto size = static_cast<size_t>(number_at(env, arguments[1]));
  if (g_block_count == 0) return nullptr;
  g_blocks = static_cast<void**>(malloc(g_block_count * sizeof(void*)));
  for (size_t i = 0; i < g_block_count; ++i) {
    g_blocks[i] = malloc(size);
    if (g_blocks[i] != nullptr) memset(g_blocks[i], 1, size);
  }
  return nullptr;
}

}  // namespace

NAPI_MODULE_INIT() {
  const struct {
    const char* name;
    napi_callback call;
  } functions[] = {{"loadAndUnload", load_and_unload},
                   {"shortThreads", short_threads},
                   {"startAllocating", start_allocating},
                   {"stopAllocating", stop_allocating},
                   {"hold", hold}};
  for (const auto& entry : functions) {
    napi_value function;
    napi_create_function(env, entry.name, NAPI_AUTO_LENGTH, entry.call, nullptr, &function);
    napi_set_named_property(env, exports, entry.name, function);
  }
  return exports;
}
