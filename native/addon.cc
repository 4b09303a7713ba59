// JavaScript <-> native: argument checks and conversion, nothing else.
#include <napi.h>

#include <set>
#include <string>

#include "allocators/statistics.h"
#include "counter/shards.h"
#include "engine/engine.h"
#include "os/os.h"

namespace {

using oom_guard::EngineAllocator;
using oom_guard::EngineApi;
using oom_guard::EngineImage;

struct ThresholdWatch;

// One per environment (the main thread and each Worker that loads the package).
struct Environment {
  const EngineApi* engine;
  int32_t heap_slot;
  oom_guard::EngineLiveCache live_cache = {0, 0};
  std::set<ThresholdWatch*> watches;
  std::set<int32_t> watchdog_holds;

  // The numbers that the calls about reservations take and give lie in memory of a JavaScript
  // array, which is kept for as long as the environment lives: a call converts and allocates
  // nothing.
  double* mailbox = nullptr;
  uint64_t heap_published_at = 0;  // os::quick_clock
  std::set<int32_t> reservations;

  explicit Environment(const EngineApi* found) : engine(found), heap_slot(-1) {}
  ~Environment();
};

// A threshold that the watchdog tells this environment about. Its function does not keep the event
// loop alive.
struct ThresholdWatch {
  Environment* environment;
  napi_env env;
  int32_t id;
  Napi::ThreadSafeFunction function;

  void close() {
    napi_remove_env_cleanup_hook(env, at_exit, this);
    end();
  }

  // Hooks run before the environment closes its handles. Instance data is finalized when the last
  // thread-safe function goes, which is too late to end one.
  static void at_exit(void* self) { static_cast<ThresholdWatch*>(self)->end(); }

 private:
  void end() {
    environment->engine->watchdog_unwatch(id);  // after this no call is on its way into `function`
    environment->watches.erase(this);
    function.Abort();
    delete this;
  }
};

Environment::~Environment() {
  for (int32_t hold : watchdog_holds) engine->watchdog_release(hold);
  engine->heap_release(heap_slot);
}

const EngineApi& engine_of(const Napi::CallbackInfo& info) {
  return *info.Env().GetInstanceData<Environment>()->engine;
}

// A missing or foreign argument reads as 0, false or "": the facade checks what users pass, and an
// addon must not abort the process for a mistake in it. Nor may it for what a Worker is ended in
// the middle of: from then on nothing can be converted, nor most things created, and
// node-addon-api's empty results end the process when they are used. Hence no ToString() and the
// like here, and no arrays of numbers, buffers or promises but the caller's or those that were
// really made.
double number_at(const Napi::CallbackInfo& info, size_t index) {
  Napi::Value value = info[index];
  return value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : 0;
}

uint64_t bytes_at(const Napi::CallbackInfo& info, size_t index) {
  double bytes = number_at(info, index);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

bool flag_at(const Napi::CallbackInfo& info, size_t index) {
  Napi::Value value = info[index];
  return value.IsBoolean() && value.As<Napi::Boolean>().Value();
}

std::string text_at(const Napi::CallbackInfo& info, size_t index) {
  Napi::Value value = info[index];
  return value.IsString() ? value.As<Napi::String>().Utf8Value() : std::string();
}

// Copies as many numbers as the caller's Float64Array has room for; false when it is none.
bool fill(const Napi::Value& array, const double* values, size_t count) {
  if (!array.IsTypedArray() ||
      array.As<Napi::TypedArray>().TypedArrayType() != napi_float64_array) {
    return false;
  }
  Napi::Float64Array out = array.As<Napi::Float64Array>();
  for (size_t i = 0; i < out.ElementLength() && i < count; ++i) out[i] = values[i];
  return true;
}

constexpr const char* kMechanisms[] = {"none", "callsites", "hooks", "stats", "pages"};

double clamp_to_zero(int64_t bytes) {
  return bytes > 0 ? static_cast<double>(bytes) : 0;
}

void Start(const Napi::CallbackInfo& info) {
  engine_of(info).start(flag_at(info, 0), static_cast<uint8_t>(bytes_at(info, 1)));
  auto* environment = info.Env().GetInstanceData<Environment>();
  if (environment->heap_slot < 0) environment->heap_slot = environment->engine->heap_acquire();
}

Napi::Value Started(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), engine_of(info).started());
}

void Rescan(const Napi::CallbackInfo& info) {
  engine_of(info).rescan();
}

void CatchUp(const Napi::CallbackInfo& info) {
  engine_of(info).catch_up();
}

Napi::Value Live(const Napi::CallbackInfo& info) {
  auto* environment = info.Env().GetInstanceData<Environment>();
  const int64_t live = environment->engine->live_lately(&environment->live_cache);
  return Napi::Number::New(info.Env(), static_cast<double>(live));
}

// Publishes the caller's heap and returns live bytes plus every published heap.
Napi::Value Usage(const Napi::CallbackInfo& info) {
  auto* environment = info.Env().GetInstanceData<Environment>();
  const EngineApi& engine = *environment->engine;
  const double used = number_at(info, 0);
  double heaps = used;
  environment->heap_published_at = oom_guard::os::quick_clock();
  if (environment->heap_slot >= 0) {
    engine.heap_publish(environment->heap_slot, static_cast<uint64_t>(used));
    heaps = static_cast<double>(engine.heap_sum());
  }
  const int64_t live = engine.live_lately(&environment->live_cache);
  return Napi::Number::New(info.Env(), clamp_to_zero(live) + heaps);
}

Napi::Value HeapCount(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), engine_of(info).heap_count());
}

Napi::Value Allocators(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const EngineApi& engine = engine_of(info);
  uint32_t count = engine.allocator_count();
  Napi::Array list = Napi::Array::New(env, count);
  for (uint32_t i = 0; i < count; ++i) {
    EngineAllocator from;
    engine.allocator(i, &from);
    Napi::Object to = Napi::Object::New(env);
    to["id"] = Napi::Number::New(env, i);
    to["name"] = Napi::String::New(env, from.name);
    to["owner"] = Napi::String::New(env, from.owner);
    to["mechanism"] = Napi::String::New(env, kMechanisms[from.mechanism]);
    to["baseline"] = Napi::Number::New(env, static_cast<double>(from.baseline));
    to["baselineKnown"] = Napi::Boolean::New(env, from.baseline_known);
    to["allocated"] = Napi::Number::New(env, static_cast<double>(from.allocated));
    to["freed"] = Napi::Number::New(env, static_cast<double>(from.freed));
    to["live"] = Napi::Number::New(env, static_cast<double>(from.live));
    to["note"] = Napi::String::New(env, from.note);
    list[i] = to;
  }
  return list;
}

// What an allocator's own statistics say is in use, bytes; undefined when it has none.
Napi::Value InUse(const Napi::CallbackInfo& info) {
  uint64_t bytes = 0;
  if (!engine_of(info).in_use(static_cast<uint32_t>(bytes_at(info, 0)), &bytes)) {
    return info.Env().Undefined();
  }
  return Napi::Number::New(info.Env(), static_cast<double>(bytes));
}

// How many bytes are allocated between two samples of an allocator's heap profiler; undefined when
// none is on.
Napi::Value Profiles(const Napi::CallbackInfo& info) {
  uint64_t bytes = 0;
  if (!engine_of(info).profiles(static_cast<uint32_t>(bytes_at(info, 0)), &bytes)) {
    return info.Env().Undefined();
  }
  return Napi::Number::New(info.Env(), static_cast<double>(bytes));
}

// Lists objects under construction: what a visitor of the engine is given.
struct Listing {
  Napi::Env env;
  Napi::Array list;
  uint32_t size;

  explicit Listing(Napi::Env of) : env(of), list(Napi::Array::New(of)), size(0) {}
  Napi::Object add() {
    Napi::Object object = Napi::Object::New(env);
    list[size++] = object;
    return object;
  }
};

// What is not counted and has no allocator or image to say it of.
Napi::Value Gaps(const Napi::CallbackInfo& info) {
  Listing gaps(info.Env());
  engine_of(info).each_gap(
      [](void* opaque, const char* what, const char* reason) {
        auto* to = static_cast<Listing*>(opaque);
        Napi::Object gap = to->add();
        gap["what"] = Napi::String::New(to->env, what);
        gap["reason"] = Napi::String::New(to->env, reason);
      },
      &gaps);
  return gaps.list;
}

// (path, bytes): what a module allocated while it was loaded, before its slots were written.
void UncountedAdd(const Napi::CallbackInfo& info) {
  engine_of(info).uncounted_add(text_at(info, 0).c_str(), static_cast<int64_t>(number_at(info, 1)));
}

Napi::Value UncountedTotal(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(engine_of(info).uncounted_total()));
}

Napi::Value UncountedLoads(const Napi::CallbackInfo& info) {
  Listing loads(info.Env());
  engine_of(info).uncounted_each(
      [](void* opaque, const char* path, int64_t bytes) {
        auto* to = static_cast<Listing*>(opaque);
        Napi::Object load = to->add();
        load["path"] = Napi::String::New(to->env, path);
        load["bytes"] = Napi::Number::New(to->env, static_cast<double>(bytes));
      },
      &loads);
  return loads.list;
}

// (path of an image, prefix of its jemalloc's functions): that jemalloc's own statistics.
Napi::Value JemallocStatistics(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  oom_guard::JemallocStatistics from;
  if (!oom_guard::read_jemalloc_statistics(text_at(info, 0).c_str(), text_at(info, 1).c_str(),
                                           &from)) {
    return env.Undefined();
  }
  Napi::Object to = Napi::Object::New(env);
  to["resident"] = Napi::Number::New(env, static_cast<double>(from.resident));
  to["mapped"] = Napi::Number::New(env, static_cast<double>(from.mapped));
  to["retained"] = Napi::Number::New(env, static_cast<double>(from.retained));
  return to;
}

// Fills a Float64Array with [allocated, freed] per shard.
void Shards(const Napi::CallbackInfo& info) {
  double totals[oom_guard::kShardCount * 2];
  for (uint32_t i = 0; i < oom_guard::kShardCount; ++i) {
    uint64_t allocated, freed;
    engine_of(info).shard(i, &allocated, &freed);
    totals[i * 2] = static_cast<double>(allocated);
    totals[i * 2 + 1] = static_cast<double>(freed);
  }
  fill(info[0], totals, sizeof(totals) / sizeof(totals[0]));
}

// Changes when images() may tell something new.
Napi::Value Generation(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(engine_of(info).generation()));
}

Napi::Value Images(const Napi::CallbackInfo& info) {
  Listing images(info.Env());
  engine_of(info).each_image(
      [](void* opaque, const EngineImage& image) {
        auto* to = static_cast<Listing*>(opaque);
        Napi::Object object = to->add();
        object["path"] = Napi::String::New(to->env, image.path);
        object["note"] = Napi::String::New(to->env, image.note);
        object["patched"] = Napi::Number::New(to->env, image.patched);
        Napi::Array skipped = Napi::Array::New(to->env, image.skipped_stored);
        for (uint32_t i = 0; i < image.skipped_stored; ++i) {
          Napi::Object slot = Napi::Object::New(to->env);
          slot["name"] = Napi::String::New(to->env, image.skipped[i].name);
          slot["reason"] = Napi::String::New(to->env, image.skipped[i].reason);
          skipped[i] = slot;
        }
        object["skipped"] = skipped;
      },
      &images);
  return images.list;
}

// Fills a Float64Array of four with total, anon, file, shared; false when the OS does not tell.
Napi::Value Rss(const Napi::CallbackInfo& info) {
  oom_guard::os::Rss rss;
  if (!oom_guard::os::read_rss(&rss)) return Napi::Boolean::New(info.Env(), false);
  const double fields[] = {static_cast<double>(rss.total), static_cast<double>(rss.anon),
                           static_cast<double>(rss.file), static_cast<double>(rss.shared)};
  return Napi::Boolean::New(info.Env(), fill(info[0], fields, 4));
}

class ReleaseWorker : public Napi::AsyncWorker {
 public:
  ReleaseWorker(Napi::Env env, const EngineApi* engine, napi_deferred done)
      : Napi::AsyncWorker(env, "oom-guard:release"), engine_(engine), done_(done) {}
  void Execute() override { engine_->release_free_memory(); }
  // Fails, and need not succeed, when the environment is being ended.
  void OnOK() override { napi_resolve_deferred(Env(), done_, Env().Undefined()); }

 private:
  const EngineApi* engine_;
  napi_deferred done_;
};

Napi::Value ReleaseFreeMemory(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  napi_deferred done;
  napi_value promise;
  if (napi_create_promise(env, &done, &promise) != napi_ok) return env.Undefined();
  (new ReleaseWorker(env, &engine_of(info), done))->Queue();
  return Napi::Value(env, promise);
}

// watchdogAcquire(tickMs): a hold, or -1.
Napi::Value WatchdogAcquire(const Napi::CallbackInfo& info) {
  auto* environment = info.Env().GetInstanceData<Environment>();
  const int32_t hold =
      environment->engine->watchdog_acquire(static_cast<uint32_t>(bytes_at(info, 0)));
  if (hold >= 0) environment->watchdog_holds.insert(hold);
  return Napi::Number::New(info.Env(), hold);
}

void WatchdogRelease(const Napi::CallbackInfo& info) {
  auto* environment = info.Env().GetInstanceData<Environment>();
  const auto hold = static_cast<int32_t>(number_at(info, 0));
  if (environment->watchdog_holds.erase(hold) != 0) environment->engine->watchdog_release(hold);
}

// watchThreshold(bytes, callback): a function that ends the watch, or undefined when the watchdog
// has no place left. The callback gets the usage that was seen.
Napi::Value WatchThreshold(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto* environment = env.GetInstanceData<Environment>();
  if (!info[1].IsFunction()) {
    Napi::TypeError::New(env, "watchThreshold needs a function").ThrowAsJavaScriptException();
    return env.Undefined();
  }
  auto* watch = new ThresholdWatch{environment, env, -1, {}};
  watch->function =
      Napi::ThreadSafeFunction::New(env, info[1].As<Napi::Function>(), "oom-guard:watchdog", 0, 1);
  watch->function.Unref(env);
  environment->watches.insert(watch);
  napi_add_env_cleanup_hook(env, ThresholdWatch::at_exit, watch);
  watch->id = environment->engine->watchdog_watch(
      bytes_at(info, 0),
      [](void* context, uint64_t usage) {
        static_cast<ThresholdWatch*>(context)->function.NonBlockingCall(
            [usage](napi_env to, Napi::Function callback) {
              // Not through the wrapper: it aborts when the environment is being ended and nothing
              // can be called or thrown any more. The facade's callback
              // does not throw.
              napi_value undefined, argument;
              if (napi_get_undefined(to, &undefined) == napi_ok &&
                  napi_create_double(to, static_cast<double>(usage), &argument) == napi_ok) {
                napi_call_function(to, undefined, callback, 1, &argument, nullptr);
              }
            });
      },
      watch);
  if (watch->id < 0) {
    watch->close();
    return env.Undefined();
  }
  return Napi::Function::New(env, [watch, environment](const Napi::CallbackInfo&) {
    if (environment->watches.count(watch) != 0) watch->close();
  });
}

void WatchContainer(const Napi::CallbackInfo& info) {
  engine_of(info).watchdog_container(text_at(info, 0).c_str(), text_at(info, 1).c_str(),
                                     bytes_at(info, 2));
}

// Fills a Float64Array of eleven with the fields of EngineWatchdog, in their order.
void ReadWatchdog(const Napi::CallbackInfo& info) {
  oom_guard::EngineWatchdog from;
  engine_of(info).watchdog_read(&from);
  const double fields[] = {
      static_cast<double>(from.ticks),      static_cast<double>(from.live),
      static_cast<double>(from.peak_live),  static_cast<double>(from.usage),
      static_cast<double>(from.peak_usage), static_cast<double>(from.rss),
      static_cast<double>(from.rss_anon),   static_cast<double>(from.container_anon),
      static_cast<double>(from.crossings),  static_cast<double>(from.last_crossing_ns),
      static_cast<double>(from.busy_ns)};
  fill(info[0], fields, sizeof(fields) / sizeof(fields[0]));
}

// [start, end) of the engine's own memory, for the ledger.
Napi::Value OwnMemory(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  uint64_t start = 0, size = 0;
  engine_of(info).own_memory(&start, &size);
  Napi::Array list = Napi::Array::New(env);
  if (size != 0) {
    Napi::Object range = Napi::Object::New(env);
    range["start"] = Napi::Number::New(env, static_cast<double>(start));
    range["end"] = Napi::Number::New(env, static_cast<double>(start + size));
    list[uint32_t{0}] = range;
  }
  return list;
}

// Where each number of the mailbox lies; the same as in lib/pool/process-ledger.ts.
enum Field {
  kSlot,
  kBytes,
  kNeeded,
  kFlags,
  kUsageLimit,
  kReservedLimit,
  kUnspillableReserve,
  kRoom,
  kRoomExisting,
  kRoomUntilMs,
  kAnswer,
  kStep,
  kUsage,
  kPending,
  kReserved,
  kExisting,
  kNowMs,
  kUnspillable,
  kFields
};
enum Flag { kCanSpill = 1, kUnchecked = 2, kExists = 4, kHeapIsFresh = 8 };
// Beside the verdicts: this isolate's heap was last published too long ago.
constexpr double kHeapTooOld = -1;
// 0.4 to 1 millisecond.
constexpr uint64_t kHeapMaxAge = 20 * oom_guard::os::kQuickClockMoment;

// Not through node-addon-api, whose conversions would cost as much as the booking itself.
Environment* environment_of(napi_env env, napi_callback_info info) {
  void* environment = nullptr;
  napi_get_cb_info(env, info, nullptr, nullptr, nullptr, &environment);
  auto* found = static_cast<Environment*>(environment);
  return found->mailbox == nullptr ? nullptr : found;
}

uint64_t whole(double value) {
  constexpr double kLargest = 4611686018427387904.0;  // two of them can be added
  return value > 0 ? static_cast<uint64_t>(value < kLargest ? value : kLargest) : 0;
}

int32_t slot_in(const Environment& environment) {
  return static_cast<int32_t>(environment.mailbox[kSlot]);
}

void answer(Environment* environment, const oom_guard::ReservationTotals& totals) {
  double* box = environment->mailbox;
  box[kStep] = static_cast<double>(totals.step);
  box[kUsage] = static_cast<double>(totals.usage);
  box[kPending] = static_cast<double>(totals.pending);
  box[kReserved] = static_cast<double>(totals.reserved);
  box[kExisting] = static_cast<double>(totals.existing);
  box[kNowMs] = static_cast<double>(totals.now_ns) / 1e6;
  box[kUnspillable] = static_cast<double>(totals.unspillable);
}

void give_back_reservations(void* environment) {
  auto* of = static_cast<Environment*>(environment);
  for (int32_t slot : of->reservations) of->engine->reservations_release(slot);
  of->reservations.clear();
}

// reservationsAcquire(mailbox, key, ageMs): a slot, or -1 when all are taken.
Napi::Value ReservationsAcquire(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto* environment = env.GetInstanceData<Environment>();
  if (!info[0].IsTypedArray() ||
      info[0].As<Napi::TypedArray>().TypedArrayType() != napi_float64_array ||
      info[0].As<Napi::TypedArray>().ElementLength() < kFields) {
    Napi::TypeError::New(env, "reservationsAcquire needs a Float64Array of 18")
        .ThrowAsJavaScriptException();
    return env.Undefined();
  }
  if (environment->mailbox == nullptr) {
    Napi::Float64Array box = info[0].As<Napi::Float64Array>();
    // Node drops the reference with the environment.
    Napi::Reference<Napi::Float64Array>::New(box, 1).SuppressDestruct();
    environment->mailbox = box.Data();
    // Not with the instance data, which may outlive the last JavaScript by a while.
    napi_add_env_cleanup_hook(env, give_back_reservations, environment);
  }
  // FNV-1a
  uint64_t key = 14695981039346656037u;
  for (char c : text_at(info, 1)) {
    key = (key ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  int32_t slot = environment->engine->reservations_acquire(
      key, static_cast<uint64_t>(number_at(info, 2) * 1e6));
  if (slot >= 0) environment->reservations.insert(slot);
  return Napi::Number::New(env, slot);
}

napi_value ReservationsBook(napi_env env, napi_callback_info info) {
  Environment* environment = environment_of(env, info);
  if (environment == nullptr) return nullptr;
  double* box = environment->mailbox;
  const auto flags = static_cast<int>(box[kFlags]);
  if ((flags & (kUnchecked | kHeapIsFresh)) == 0 &&
      oom_guard::os::quick_clock() - environment->heap_published_at > kHeapMaxAge) {
    box[kAnswer] = kHeapTooOld;
    return nullptr;
  }
  oom_guard::Booking booking = {slot_in(*environment),
                                (flags & kCanSpill) != 0,
                                (flags & kUnchecked) != 0,
                                whole(box[kBytes]),
                                whole(box[kNeeded]),
                                whole(box[kUsageLimit]),
                                whole(box[kReservedLimit]),
                                whole(box[kUnspillableReserve]),
                                whole(box[kRoom]),
                                whole(box[kRoomExisting]),
                                whole(box[kRoomUntilMs] * 1e6),
                                oom_guard::BookingVerdict::kGranted};
  oom_guard::ReservationTotals totals;
  environment->engine->reservations_book(&booking, &totals);
  answer(environment, totals);
  box[kAnswer] = static_cast<double>(booking.verdict);
  return nullptr;
}

// Bytes are no longer reserved. Answers with the present step.
napi_value ReservationsGiveBack(napi_env env, napi_callback_info info) {
  Environment* environment = environment_of(env, info);
  if (environment == nullptr) return nullptr;
  double* box = environment->mailbox;
  box[kStep] = static_cast<double>(environment->engine->reservations_give_back(
      slot_in(*environment), whole(box[kBytes]), (static_cast<int>(box[kFlags]) & kCanSpill) != 0));
  return nullptr;
}

// Bytes granted in a step are no longer pending.
napi_value ReservationsRetire(napi_env env, napi_callback_info info) {
  Environment* environment = environment_of(env, info);
  if (environment == nullptr) return nullptr;
  const double* box = environment->mailbox;
  if ((static_cast<int>(box[kFlags]) & kExists) != 0) {
    environment->engine->reservations_now_existing(whole(box[kBytes]));
  }
  environment->engine->reservations_retire(slot_in(*environment), whole(box[kStep]),
                                           whole(box[kBytes]));
  return nullptr;
}

napi_value ReservationsRead(napi_env env, napi_callback_info info) {
  Environment* environment = environment_of(env, info);
  if (environment == nullptr) return nullptr;
  oom_guard::ReservationTotals totals;
  environment->engine->reservations_read(slot_in(*environment), &totals);
  answer(environment, totals);
  environment->mailbox[kAnswer] =
      oom_guard::os::quick_clock() - environment->heap_published_at > kHeapMaxAge ? kHeapTooOld : 0;
  return nullptr;
}

Napi::Value function_on(Napi::Env env, const char* name, napi_callback callback) {
  napi_value function = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, env.GetInstanceData<Environment>(),
                       &function);
  return Napi::Value(env, function);
}

// For benchmarks: 0 counting, 1 the original functions, 2 counting by usable size.
void Retarget(const Napi::CallbackInfo& info) {
  engine_of(info).retarget(static_cast<uint8_t>(bytes_at(info, 0)));
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  const EngineApi* engine = oom_guard::find_engine();
  if (engine == nullptr) {
    Napi::Error::New(env, "another, incompatible version of oom-guard counts in this process")
        .ThrowAsJavaScriptException();
    return exports;
  }
  env.SetInstanceData(new Environment(engine));
  exports["start"] = Napi::Function::New<Start>(env, "start");
  exports["started"] = Napi::Function::New<Started>(env, "started");
  exports["rescan"] = Napi::Function::New<Rescan>(env, "rescan");
  exports["catchUp"] = Napi::Function::New<CatchUp>(env, "catchUp");
  exports["live"] = Napi::Function::New<Live>(env, "live");
  exports["usage"] = Napi::Function::New<Usage>(env, "usage");
  exports["heapCount"] = Napi::Function::New<HeapCount>(env, "heapCount");
  exports["allocators"] = Napi::Function::New<Allocators>(env, "allocators");
  exports["inUse"] = Napi::Function::New<InUse>(env, "inUse");
  exports["profiles"] = Napi::Function::New<Profiles>(env, "profiles");
  exports["gaps"] = Napi::Function::New<Gaps>(env, "gaps");
  exports["uncountedAdd"] = Napi::Function::New<UncountedAdd>(env, "uncountedAdd");
  exports["uncountedTotal"] = Napi::Function::New<UncountedTotal>(env, "uncountedTotal");
  exports["uncountedLoads"] = Napi::Function::New<UncountedLoads>(env, "uncountedLoads");
  exports["jemallocStatistics"] =
      Napi::Function::New<JemallocStatistics>(env, "jemallocStatistics");
  exports["shards"] = Napi::Function::New<Shards>(env, "shards");
  exports["generation"] = Napi::Function::New<Generation>(env, "generation");
  exports["images"] = Napi::Function::New<Images>(env, "images");
  exports["rss"] = Napi::Function::New<Rss>(env, "rss");
  exports["releaseFreeMemory"] = Napi::Function::New<ReleaseFreeMemory>(env, "releaseFreeMemory");
  exports["watchdogAcquire"] = Napi::Function::New<WatchdogAcquire>(env, "watchdogAcquire");
  exports["watchdogRelease"] = Napi::Function::New<WatchdogRelease>(env, "watchdogRelease");
  exports["watchThreshold"] = Napi::Function::New<WatchThreshold>(env, "watchThreshold");
  exports["watchContainer"] = Napi::Function::New<WatchContainer>(env, "watchContainer");
  exports["readWatchdog"] = Napi::Function::New<ReadWatchdog>(env, "readWatchdog");
  exports["ownMemory"] = Napi::Function::New<OwnMemory>(env, "ownMemory");
  exports["reservationsAcquire"] =
      Napi::Function::New<ReservationsAcquire>(env, "reservationsAcquire");
  exports["reservationsBook"] = function_on(env, "reservationsBook", ReservationsBook);
  exports["reservationsGiveBack"] = function_on(env, "reservationsGiveBack", ReservationsGiveBack);
  exports["reservationsRetire"] = function_on(env, "reservationsRetire", ReservationsRetire);
  exports["reservationsRead"] = function_on(env, "reservationsRead", ReservationsRead);
  exports["retarget"] = Napi::Function::New<Retarget>(env, "retarget");
  exports["pageSize"] = Napi::Number::New(env, static_cast<double>(oom_guard::os::page_size()));
  exports["shardCount"] = Napi::Number::New(env, oom_guard::kShardCount);
  return exports;
}

}  // namespace

NODE_API_MODULE(oom_guard, Init)
