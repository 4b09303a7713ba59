// Loads a library behind Node's back and lets it allocate: `load(path)`, then `hold(bytes)`.
// `refuseThreads()`: from then on the system gives this thread no other.
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <node_api.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void* (*late_allocate)(size_t);

static napi_value load(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t count = 1;
  char path[4096];
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  napi_get_value_string_utf8(env, argument, path, sizeof(path), nullptr);
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    napi_throw_error(env, nullptr, dlerror());
    return nullptr;
  }
  late_allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "late_allocate"));
  return nullptr;
}

static napi_value hold(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t count = 1;
  int64_t bytes;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  napi_get_value_int64(env, argument, &bytes);
  late_allocate(static_cast<size_t>(bytes));
  return nullptr;
}

static napi_value refuse_threads(napi_env env, napi_callback_info) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    napi_throw_error(env, nullptr, "seccomp");
  }
  return nullptr;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "refuseThreads", NAPI_AUTO_LENGTH, refuse_threads, nullptr, &function);
  napi_set_named_property(env, exports, "refuseThreads", function);
  napi_create_function(env, "load", NAPI_AUTO_LENGTH, load, nullptr, &function);
  napi_set_named_property(env, exports, "load", function);
  napi_create_function(env, "hold", NAPI_AUTO_LENGTH, hold, nullptr, &function);
  napi_set_named_property(env, exports, "hold", function);
  return exports;
}
