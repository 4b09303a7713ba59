// For bench/: times malloc and free as an addon's import slots lead to them, and allocates in
// bursts.
#include <node_api.h>
#include <pthread.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>

namespace {

struct Job {
  int64_t pairs;
  double ns_per_pair;
};

double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// 24 to 1024 bytes, as a program asks for them: never the same size twice in a row.
void* run(void* argument) {
  auto* job = static_cast<Job*>(argument);
  double start = now_ns();
  uint32_t seed = 1;
  for (int64_t i = 0; i < job->pairs; ++i) {
    seed = seed * 1664525u + 1013904223u;
    void* volatile block = malloc(24 + (seed >> 22) % 1001);
    free(block);
  }
  job->ns_per_pair = (now_ns() - start) / static_cast<double>(job->pairs);
  return nullptr;
}

// pairs(count, threads): nanoseconds a pair, the mean over the threads.
napi_value pairs(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  size_t count = 2;
  Job jobs[64];
  pthread_t threads[64];
  int64_t wanted = 0;
  int32_t thread_count = 1;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  napi_get_value_int64(env, arguments[0], &wanted);
  napi_get_value_int32(env, arguments[1], &thread_count);
  if (thread_count > 64) thread_count = 64;
  for (int32_t i = 0; i < thread_count; ++i) jobs[i].pairs = wanted;
  for (int32_t i = 1; i < thread_count; ++i) pthread_create(&threads[i], nullptr, run, &jobs[i]);
  run(&jobs[0]);
  double sum = jobs[0].ns_per_pair;
  for (int32_t i = 1; i < thread_count; ++i) {
    pthread_join(threads[i], nullptr);
    sum += jobs[i].ns_per_pair;
  }
  napi_value result;
  napi_create_double(env, sum / thread_count, &result);
  return result;
}

#if defined(__x86_64__)
#define ADD(n) "add $1, %" #n "\n"
#else
#define ADD(n) "add %" #n ", %" #n ", #1\n"
#endif

// additionsPerCycle(): how many additions that do not wait for one another the core does in the
// time of one (a chain of them takes a cycle each). Fewer than it can when another thread of the
// core, of somebody else's too, takes its part.
napi_value additions_per_cycle(napi_env env, napi_callback_info) {
  constexpr int kTurns = 20000;
  uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  const double start = now_ns();
  for (int i = 0; i < kTurns; ++i) {
    __asm__ volatile(ADD(0) ADD(0) ADD(0) ADD(0) : "+r"(a) : : "cc");
  }
  const double middle = now_ns();
  for (int i = 0; i < kTurns; ++i) {
    __asm__ volatile(ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(0) ADD(1) ADD(2)
                         ADD(3) ADD(4) ADD(5) ADD(6) ADD(7)
                     : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h)
                     :
                     : "cc");
  }
  const double cycles_per_ns = 4 * kTurns / (middle - start);
  napi_value result;
  napi_create_double(env, 16 * kTurns / (now_ns() - middle) / cycles_per_ns, &result);
  return result;
}

// burst(total, chunk, threshold, holdMs): allocates `total` bytes in chunks, keeps the thread busy
// with them for `holdMs`, frees them. Returns when `threshold` of them was passed, CLOCK_MONOTONIC
// ms.
napi_value burst(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  size_t count = 4;
  int64_t total = 0, chunk = 0, threshold = 0, hold_ms = 0;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  napi_get_value_int64(env, arguments[0], &total);
  napi_get_value_int64(env, arguments[1], &chunk);
  napi_get_value_int64(env, arguments[2], &threshold);
  napi_get_value_int64(env, arguments[3], &hold_ms);
  const int64_t blocks = total / chunk;
  void** block = static_cast<void**>(malloc(static_cast<size_t>(blocks) * sizeof(void*)));
  double crossed = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    block[i] = malloc(static_cast<size_t>(chunk));
    if (crossed == 0 && (i + 1) * chunk > threshold) crossed = now_ns();
  }
  const double until = now_ns() + static_cast<double>(hold_ms) * 1e6;
  while (now_ns() < until) {
  }
  for (int64_t i = 0; i < blocks; ++i) free(block[i]);
  free(block);
  napi_value result;
  napi_create_double(env, crossed / 1e6, &result);
  return result;
}

// allocateInBackground(threads): so many threads allocate and free until the process ends.
napi_value allocate_in_background(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t count = 1;
  int32_t threads = 0;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  napi_get_value_int32(env, argument, &threads);
  for (int32_t i = 0; i < threads; ++i) {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          for (;;) {
            Job job = {1000000, 0};
            run(&job);
          }
        },
        nullptr);
  }
  return nullptr;
}

// spin(threads): keeps so many cores busy until the process ends.
napi_value spin(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t count = 1;
  int32_t threads = 0;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  napi_get_value_int32(env, argument, &threads);
  for (int32_t i = 0; i < threads; ++i) {
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          for (volatile uint64_t turns = 0;; turns = turns + 1) {
          }
        },
        nullptr);
  }
  return nullptr;
}

}  // namespace

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "pairs", NAPI_AUTO_LENGTH, pairs, nullptr, &function);
  napi_set_named_property(env, exports, "pairs", function);
  napi_create_function(env, "additionsPerCycle", NAPI_AUTO_LENGTH, additions_per_cycle, nullptr,
                       &function);
  napi_set_named_property(env, exports, "additionsPerCycle", function);
  napi_create_function(env, "burst", NAPI_AUTO_LENGTH, burst, nullptr, &function);
  napi_set_named_property(env, exports, "burst", function);
  napi_create_function(env, "allocateInBackground", NAPI_AUTO_LENGTH, allocate_in_background,
                       nullptr, &function);
  napi_set_named_property(env, exports, "allocateInBackground", function);
  napi_create_function(env, "spin", NAPI_AUTO_LENGTH, spin, nullptr, &function);
  napi_set_named_property(env, exports, "spin", function);
  return exports;
}
