// The same churn inside Node: `churn()` runs a round and returns when all threads have ended.
#include <node_api.h>

#include "churn.h"

static napi_value churn_call(napi_env, napi_callback_info) {
  churn::churn_round();
  return nullptr;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "churn", NAPI_AUTO_LENGTH, churn_call, nullptr, &function);
  napi_set_named_property(env, exports, "churn", function);
  return exports;
}
