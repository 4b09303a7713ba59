// Stands for a copy of a build whose engine this one cannot use.
#include "engine/engine.h"

namespace {
bool g_started = false;
}  // namespace

extern "C" {
__attribute__((visibility("default"))) void foreign_set_started(bool started) {
  g_started = started;
}
extern __attribute__((visibility("default"))) const oom_guard::EngineApi oom_guard_engine_api;
const oom_guard::EngineApi oom_guard_engine_api = {
    oom_guard::kEngineMagic, oom_guard::kEngineAbi + 1000, sizeof(oom_guard::EngineApi),
    [] { return g_started; }};
}
