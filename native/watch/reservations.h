// What the memory pools of all isolates of this process hold: how much they have reserved, and how
// much of that is granted but not allocated yet. The check of a request and its booking are one
// step, whichever threads ask at the same time.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace oom_guard {

enum class BookingVerdict : uint8_t { kGranted, kUsage, kContainer, kPool };

// Sizes in bytes. Booking and ReservationTotals pass between builds (see EngineApi): their layout
// never changes.
struct Booking {
  int32_t slot;
  bool can_spill;   // its consumer can: the reserve for those who cannot is not for it
  bool unchecked;   // books whatever the limits say
  uint64_t bytes;   // asked for
  uint64_t needed;  // the part of them that is not allocated yet
  uint64_t usage_limit, reserved_limit;
  uint64_t unspillable_reserve;
  // What the container had room for when it was last read, how much had become existing by then
  // (Totals::existing), and until when that reading may say yes.
  uint64_t room, room_existing, room_until_ns;
  BookingVerdict verdict;
};

struct ReservationTotals {
  uint64_t usage;     // as compared with the limit; 0 where it was not read
  uint64_t pending;   // granted and not known to be allocated, over all slots
  uint64_t reserved;  // over the slots of the same key
  uint64_t unspillable;
  uint64_t existing;  // bytes that stopped being pending or were let in existing; never falls
  uint64_t step;      // of the slot's wheel
  uint64_t now_ns;
};

// A slot is one pool in one isolate. Pools of the same key share their reserved total; grants that
// are not allocated yet count for everybody, as usage does.
class Reservations {
 public:
  static constexpr int32_t kSlots = 512;
  static constexpr unsigned kSteps = 8;  // in which a grant ages

  // A slot, or -1 when all are taken. A grant stops counting `age_ns` to 9/8 of that after it.
  int32_t acquire(uint64_t key, uint64_t age_ns);
  // What the slot held is given back.
  void release(int32_t slot);

  // `usage` is read under the lock, after what is pending: an allocation is seen in one or in both.
  void book(Booking* booking, uint64_t (*usage)(void*), void* context, ReservationTotals* out);
  // Returns the present step of the slot's wheel.
  uint64_t give_back(int32_t slot, uint64_t bytes, bool can_spill);
  // Forgets grants of a step. Those that have aged out are forgotten already.
  void retire(int32_t slot, uint64_t step, uint64_t bytes);
  // These bytes exist although a reading of the container may have missed them.
  void now_existing(uint64_t bytes);
  void read(int32_t slot, ReservationTotals* out);

 private:
  static constexpr unsigned kWheel = kSteps + 1;
  struct Slot {
    bool used;
    uint64_t key;
    uint64_t reserved, unspillable;
    uint64_t step_ns, step, pending;
    uint64_t wheel[kWheel];
  };

  bool valid(int32_t slot) const { return slot >= 0 && slot < kSlots && slots_[slot].used; }
  uint64_t now_ns();
  void advance(Slot* slot, uint64_t now_ns);
  void sum(const Slot& slot, uint64_t now_ns, ReservationTotals* out);

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  int32_t highest_ = 0;  // slots at and above were never used
  uint64_t existing_ = 0;
  uint64_t clock_read_at_ = 0, clock_ns_ = 0;
  Slot slots_[kSlots] = {};
};

}  // namespace oom_guard
