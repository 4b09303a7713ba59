// For bench/counting.mjs: times malloc and free as an addon's import slots lead to them.
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

}  // namespace

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "pairs", NAPI_AUTO_LENGTH, pairs, nullptr, &function);
  napi_set_named_property(env, exports, "pairs", function);
  return exports;
}
