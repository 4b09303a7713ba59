// What each copy of the engine says when it is asked which one this process uses.
#include "engine/engine.h"

extern "C" __attribute__((visibility("default"))) const oom_guard::EngineApi* probe_find_engine() {
  return oom_guard::find_engine();
}
