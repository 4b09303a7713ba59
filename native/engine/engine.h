// The counting engine of this process behind a plain C table, so that several copies of the addon,
// of different builds even, can share the one that was there first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "watch/reservations.h"

namespace oom_guard {

struct EngineAllocator {
  const char* name;
  const char* owner;
  const char* note;
  uint8_t mechanism;  // Mechanism
  bool baseline_known;
  int64_t baseline;
  uint64_t allocated, freed;
  int64_t live;  // what was sampled, or baseline + allocated - freed
};

// What one reader remembers between two readings.
struct EngineLiveCache {
  uint64_t read_at;
  int64_t others;
};

struct EngineSkippedSlot {
  const char* name;
  const char* reason;
};

struct EngineImage {
  const char* path;
  const char* note;
  uint32_t patched;
  uint32_t skipped_count;  // may exceed what `skipped` holds
  uint32_t skipped_stored;
  EngineSkippedSlot skipped[16];
};

struct EngineWatchdog {
  uint64_t ticks;
  int64_t live, peak_live;
  uint64_t usage, peak_usage;
  uint64_t rss, rss_anon, container_anon;
  uint64_t crossings, last_crossing_ns, busy_ns;
};

// The layout is an agreement between builds: fields are only ever added at the end, and kEngineAbi
// is raised when the meaning of one changes.
struct EngineApi {
  uint64_t magic;
  uint32_t abi;
  uint32_t size;  // bytes; a field beyond it does not exist
  bool (*started)();

  // `jemalloc` is a JemallocChoice. The first call decides.
  void (*start)(bool patch, uint8_t jemalloc);
  void (*rescan)();
  int64_t (*live)();
  // The same for a thread that reads often: its own bookings are exact, those of other threads up
  // to 50 microseconds old. While they allocate, their cache lines would cost 0.1 microseconds
  // each.
  int64_t (*live_lately)(EngineLiveCache* cache);
  uint32_t (*allocator_count)();
  void (*allocator)(uint32_t index, EngineAllocator* out);
  // One shard's totals, bytes, summed over all allocators.
  void (*shard)(uint32_t index, uint64_t* allocated, uint64_t* freed);
  bool (*in_use)(uint32_t allocator, uint64_t* bytes);
  void (*each_image)(void (*visit)(void*, const EngineImage&), void* context);
  // Changes when each_image may tell something new.
  uint64_t (*generation)();
  void (*release_free_memory)();
  // For benchmarks only: points all patched slots at a SlotTarget, and takes
  // hooks out where that is the original. The books are wrong afterwards.
  void (*retarget)(uint8_t target);
  bool (*rescanner_running)();

  // See watch/watchdog.h.
  int32_t (*watchdog_acquire)(uint32_t tick_ms);
  void (*watchdog_release)(int32_t hold);
  int32_t (*watchdog_watch)(uint64_t bytes, void (*callback)(void*, uint64_t), void* context);
  void (*watchdog_unwatch)(int32_t id);
  void (*watchdog_container)(const char* file, const char* name, uint64_t limit);
  void (*watchdog_read)(EngineWatchdog* out);

  // V8 heaps are per isolate and can only be read from inside. Each isolate publishes its own.
  int32_t (*heap_acquire)();  // a slot, or -1 when all are taken
  void (*heap_publish)(int32_t slot, uint64_t used_bytes);
  void (*heap_release)(int32_t slot);
  uint64_t (*heap_sum)();
  uint32_t (*heap_count)();

  // Where the engine's own memory lies; 0 and 0 before it is started.
  void (*own_memory)(uint64_t* start, uint64_t* size);

  // What the pools of all isolates hold, see watch/reservations.h.
  int32_t (*reservations_acquire)(uint64_t key, uint64_t age_ns);
  void (*reservations_release)(int32_t slot);
  void (*reservations_book)(Booking* booking, ReservationTotals* out);
  uint64_t (*reservations_give_back)(int32_t slot, uint64_t bytes, bool can_spill);
  void (*reservations_retire)(int32_t slot, uint64_t step, uint64_t bytes);
  void (*reservations_now_existing)(uint64_t bytes);
  void (*reservations_read)(int32_t slot, ReservationTotals* out);

  // For who is about to read: like rescan, but never waits long for somebody else's load.
  void (*catch_up)();
  // Calls `visit` for each thing that is not counted and has no allocator or image to say it of.
  void (*each_gap)(void (*visit)(void*, const char* what, const char* reason), void* context);
  // Whether a jemalloc's heap profiler is on, and bytes allocated between two of its samples.
  bool (*profiles)(uint32_t allocator, uint64_t* bytes_per_sample);
  // What modules allocated uncounted while they were loaded, see allocators/uncounted_loads.h.
  void (*uncounted_add)(const char* path, int64_t bytes);
  int64_t (*uncounted_total)();
  void (*uncounted_each)(void (*visit)(void*, const char* path, int64_t bytes), void* context);
};

constexpr uint64_t kEngineMagic = 0x6f6f6d5f67756172;  // "oom_guar"
// To be raised whenever the signature or the meaning of anything above changes, in whatever
// release: a copy of another version takes what it finds at its word. A new field at the end needs
// no raise.
constexpr uint32_t kEngineAbi = 1;

// The engine that this process uses: that of the copy of the addon that was loaded first. Null when
// that copy is of an incompatible build and is already counting.
const EngineApi* find_engine();

}  // namespace oom_guard
