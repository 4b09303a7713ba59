#include "engine/engine.h"

#include <link.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <new>

#include "allocators/registry.h"
#include "allocators/uncounted_loads.h"
#include "os/os.h"
#include "watch/heaps.h"
#include "watch/rescanner.h"
#include "watch/reservations.h"
#include "watch/sampler.h"
#include "watch/watchdog.h"

namespace oom_guard {
namespace {

Registry* g_registry;
std::atomic<bool> g_started{false};
std::atomic<bool> g_rescanner{false};
pthread_mutex_t g_start_lock = PTHREAD_MUTEX_INITIALIZER;
HeapSlots g_heaps;
Reservations g_reservations;
UncountedLoads g_uncounted_loads;
Watchdog* g_watchdog;

struct Process {
  Registry registry;
  Watchdog watchdog{&registry, &g_heaps};
};

bool started() {
  return g_started.load(std::memory_order_acquire);
}

void start(bool patch, uint8_t jemalloc) {
  if (started()) return;
  pthread_mutex_lock(&g_start_lock);
  if (!started()) {
    // Its own pages, so that a process that never starts does not pay for them, and never freed:
    // wrappers and hooks point there.
    void* memory =
        mmap(nullptr, sizeof(Process), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      auto* process = new (memory) Process;
      g_registry = &process->registry;
      g_watchdog = &process->watchdog;
      RegistryOptions options;
      options.patch = patch;
      options.jemalloc = static_cast<JemallocChoice>(jemalloc);
      g_registry->start(options);
      // For the child only: a handler that ran before the fork would take our lock and the loader's
      // in an order that others do not keep.
      pthread_atfork(nullptr, nullptr, [] {
        g_registry->forked();
        g_watchdog->forked();
        g_heaps.forked();
        g_uncounted_loads.forked();
      });
      g_rescanner.store(start_rescanner(g_registry));
      start_sampler_when_needed(g_registry);
      g_started.store(true, std::memory_order_release);
    }
  }
  pthread_mutex_unlock(&g_start_lock);
}

void rescan() {
  if (!started()) return;
  g_registry->rescan();
  start_sampler_when_needed(g_registry);
}

void catch_up() {
  if (!started()) return;
  catch_up_with_loads(g_registry);
  start_sampler_when_needed(g_registry);
}

int64_t live() {
  return started() ? g_registry->live() : 0;
}

int64_t live_lately(EngineLiveCache* cache) {
  if (!started()) return 0;
  const unsigned mine = shard_of(thread_number());
  int64_t own = 0;
  const uint32_t count = g_registry->allocator_count();
  for (uint32_t i = 0; i < count; ++i) {
    const Allocator& allocator = g_registry->allocator(i);
    if (!allocator.books()) continue;
    Totals totals = allocator.shards->read(mine);
    own += static_cast<int64_t>(totals.allocated - totals.freed);
  }
  const uint64_t now = os::quick_clock();
  if (now - cache->read_at > os::kQuickClockMoment) {
    cache->others = g_registry->live() - own;
    cache->read_at = now;
  }
  return cache->others + own;
}

uint32_t allocator_count() {
  return started() ? g_registry->allocator_count() : 0;
}

void allocator(uint32_t index, EngineAllocator* out) {
  const Allocator& from = g_registry->allocator(index);
  Totals totals = from.shards->sum();
  *out = {from.name,           from.owner,
          from.note,           static_cast<uint8_t>(from.mechanism),
          from.baseline_known, from.baseline.load(std::memory_order_relaxed),
          totals.allocated,    totals.freed,
          from.live()};
}

void shard(uint32_t index, uint64_t* allocated, uint64_t* freed) {
  *allocated = *freed = 0;
  for (uint32_t i = 0; i < allocator_count(); ++i) {
    Totals totals = g_registry->allocator(i).shards->read(index);
    *allocated += totals.allocated;
    *freed += totals.freed;
  }
}

bool in_use(uint32_t index, uint64_t* bytes) {
  return index < allocator_count() && g_registry->in_use(index, bytes);
}

struct ImageVisit {
  void (*visit)(void*, const EngineImage&);
  void* context;
};

void each_image(void (*visit)(void*, const EngineImage&), void* context) {
  if (!started()) return;
  ImageVisit wanted = {visit, context};
  g_registry->each_image(
      [](void* opaque, const ImageRecord& record) {
        auto* to = static_cast<ImageVisit*>(opaque);
        EngineImage image = {};
        image.path = record.path;
        image.note = record.note;
        image.patched = record.patched;
        image.skipped_count = record.skipped_count;
        for (unsigned i = 0; i < record.skipped_count && i < ImageRecord::kMaxSkipped; ++i) {
          image.skipped[image.skipped_stored++] = {kFnNames[index_of(record.skipped[i].fn)],
                                                   describe(record.skipped[i].reason)};
        }
        to->visit(to->context, image);
      },
      &wanted);
}

uint64_t generation() {
  return started() ? g_registry->generation() : 0;
}

void release_free_memory() {
  if (started()) g_registry->release_free_memory();
}

void retarget(uint8_t target) {
  if (started()) g_registry->retarget(static_cast<SlotTarget>(target));
}

int32_t watchdog_acquire(uint32_t tick_ms) {
  return started() ? g_watchdog->acquire(tick_ms) : -1;
}
void watchdog_release(int32_t hold) {
  if (started()) g_watchdog->release(hold);
}
int32_t watchdog_watch(uint64_t bytes, void (*callback)(void*, uint64_t), void* context) {
  return started() ? g_watchdog->watch(bytes, callback, context) : -1;
}
void watchdog_unwatch(int32_t id) {
  if (started()) g_watchdog->unwatch(id);
}
void watchdog_container(const char* file, const char* name, uint64_t limit) {
  if (started()) g_watchdog->watch_container(file, name, limit);
}
void watchdog_read(EngineWatchdog* out) {
  *out = {};
  if (!started()) return;
  WatchdogReadings from;
  g_watchdog->read(&from);
  *out = {from.ticks,  from.live,     from.peak_live,      from.usage,     from.peak_usage,
          from.rss,    from.rss_anon, from.container_anon, from.crossings, from.last_crossing_ns,
          from.busy_ns};
}

bool rescanner_running() {
  return g_rescanner.load();
}
int32_t heap_acquire() {
  return g_heaps.acquire();
}
void heap_publish(int32_t slot, uint64_t used_bytes) {
  g_heaps.publish(slot, used_bytes);
}
void heap_release(int32_t slot) {
  g_heaps.release(slot);
}
uint64_t heap_sum() {
  return g_heaps.sum();
}
void own_memory(uint64_t* start, uint64_t* size) {
  const size_t page = os::page_size();
  *start = started() ? reinterpret_cast<uint64_t>(g_registry) : 0;
  *size = started() ? (sizeof(Process) + page - 1) / page * page : 0;
}

uint32_t heap_count() {
  return g_heaps.count();
}

int32_t reservations_acquire(uint64_t key, uint64_t age_ns) {
  return g_reservations.acquire(key, age_ns);
}
void reservations_release(int32_t slot) {
  g_reservations.release(slot);
}

// Read anew each time: a reading of a moment ago would miss what another isolate's grant has become
// since. Frees are summed first, so what is in flight can only make it too large.
uint64_t read_usage(void*) {
  const int64_t live_bytes = live();
  return (live_bytes > 0 ? static_cast<uint64_t>(live_bytes) : 0) + g_heaps.sum();
}

void reservations_book(Booking* booking, ReservationTotals* out) {
  g_reservations.book(booking, read_usage, nullptr, out);
}
uint64_t reservations_give_back(int32_t slot, uint64_t bytes, bool can_spill) {
  return g_reservations.give_back(slot, bytes, can_spill);
}
void reservations_retire(int32_t slot, uint64_t step, uint64_t bytes) {
  g_reservations.retire(slot, step, bytes);
}
void reservations_now_existing(uint64_t bytes) {
  g_reservations.now_existing(bytes);
}
void reservations_read(int32_t slot, ReservationTotals* out) {
  g_reservations.read(slot, out);
}

void each_gap(void (*visit)(void*, const char* what, const char* reason), void* context) {
  if (!started()) return;
  if (const unsigned left_out = g_registry->images_left_out()) {
    char what[64];
    snprintf(what, sizeof(what), "%u loaded libraries", left_out);
    visit(context, what, "not looked at: there is room for 1024, and for paths of 1023 characters");
  }
  if (!rescanner_running()) {
    visit(context, "libraries loaded by native code",
          "found at snapshots only: the system refused the thread that looks for them");
  }
  if (!samples_are_taken()) {
    visit(context, "allocators that are sampled (stats, pages)",
          "not sampled: the system refused the thread that samples");
  }
}

bool profiles(uint32_t index, uint64_t* bytes_per_sample) {
  return index < allocator_count() && g_registry->profiles(index, bytes_per_sample);
}

void uncounted_add(const char* path, int64_t bytes) {
  g_uncounted_loads.add(path, bytes);
}
int64_t uncounted_total() {
  return g_uncounted_loads.total();
}
void uncounted_each(void (*visit)(void*, const char* path, int64_t bytes), void* context) {
  g_uncounted_loads.each(visit, context);
}

static_assert(ImageTable::kMaxImages == 1024 && ImageRecord::kMaxPath == 1024, "as said above");

}  // namespace
}  // namespace oom_guard

// Visible to other copies through the dynamic symbol table, which RTLD_LOCAL does not hide from a
// walk over the loaded images.
extern "C" __attribute__((visibility("default"), used))
const oom_guard::EngineApi oom_guard_engine_api = {
    oom_guard::kEngineMagic,
    oom_guard::kEngineAbi,
    sizeof(oom_guard::EngineApi),
    oom_guard::started,
    oom_guard::start,
    oom_guard::rescan,
    oom_guard::live,
    oom_guard::live_lately,
    oom_guard::allocator_count,
    oom_guard::allocator,
    oom_guard::shard,
    oom_guard::in_use,
    oom_guard::each_image,
    oom_guard::generation,
    oom_guard::release_free_memory,
    oom_guard::retarget,
    oom_guard::rescanner_running,
    oom_guard::watchdog_acquire,
    oom_guard::watchdog_release,
    oom_guard::watchdog_watch,
    oom_guard::watchdog_unwatch,
    oom_guard::watchdog_container,
    oom_guard::watchdog_read,
    oom_guard::heap_acquire,
    oom_guard::heap_publish,
    oom_guard::heap_release,
    oom_guard::heap_sum,
    oom_guard::heap_count,
    oom_guard::own_memory,
    oom_guard::reservations_acquire,
    oom_guard::reservations_release,
    oom_guard::reservations_book,
    oom_guard::reservations_give_back,
    oom_guard::reservations_retire,
    oom_guard::reservations_now_existing,
    oom_guard::reservations_read,
    oom_guard::catch_up,
    oom_guard::each_gap,
    oom_guard::profiles,
    oom_guard::uncounted_add,
    oom_guard::uncounted_total,
    oom_guard::uncounted_each,
};

namespace oom_guard {
namespace {

struct Search {
  const EngineApi* first = nullptr;  // of those that we understand
  bool foreign_started = false;
};

// Two copies must come to the same answer without talking: the loader lists images in the order in
// which they were loaded, and the addon is never unloaded.
int visit_copy(dl_phdr_info* info, size_t, void* out) {
  ElfImage image;
  if (image.parse(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum) != ImageError::kNone)
    return 0;
  uintptr_t address = image.find_defined("oom_guard_engine_api");
  if (address == 0 || !image.contains(address, offsetof(EngineApi, start))) return 0;
  const auto* api = reinterpret_cast<const EngineApi*>(address);
  if (api->magic != kEngineMagic) return 0;
  auto* search = static_cast<Search*>(out);
  if (api->abi == kEngineAbi && api->size >= sizeof(EngineApi)) {
    if (search->first == nullptr) search->first = api;
  } else if (image.contains(reinterpret_cast<uintptr_t>(api->started)) && api->started()) {
    // (While a copy is being loaded the pointer is not one yet.)
    search->foreign_started = true;
  }
  return 0;
}

}  // namespace

const EngineApi* find_engine() {
  Search search;
  dl_iterate_phdr(visit_copy, &search);
  // Two engines would count the same slots twice.
  if (search.foreign_started) return nullptr;
  return search.first != nullptr ? search.first : &oom_guard_engine_api;
}

}  // namespace oom_guard
