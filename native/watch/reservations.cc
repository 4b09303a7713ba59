#include "watch/reservations.h"

#include <algorithm>

#include "os/os.h"

namespace oom_guard {
namespace {

class Locked {
 public:
  explicit Locked(pthread_mutex_t* lock) : lock_(lock) { pthread_mutex_lock(lock_); }
  ~Locked() { pthread_mutex_unlock(lock_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t* lock_;
};

uint64_t less(uint64_t from, uint64_t bytes) {
  return from > bytes ? from - bytes : 0;
}

// Limits reach up to all ones: no sum of theirs may wrap around.
bool fits(uint64_t used, uint64_t wanted, uint64_t limit) {
  return wanted <= limit && used <= limit - wanted;
}

}  // namespace

int32_t Reservations::acquire(uint64_t key, uint64_t age_ns) {
  Locked locked(&lock_);
  for (int32_t i = 0; i < kSlots; ++i) {
    if (slots_[i].used) continue;
    slots_[i] = {};
    slots_[i].used = true;
    slots_[i].key = key;
    slots_[i].step_ns = std::max<uint64_t>(age_ns / kSteps, 1);
    slots_[i].step = now_ns() / slots_[i].step_ns;
    highest_ = std::max(highest_, i + 1);
    return i;
  }
  return -1;
}

void Reservations::release(int32_t slot) {
  Locked locked(&lock_);
  if (!valid(slot)) return;
  existing_ += slots_[slot].pending;
  slots_[slot] = {};
}

void Reservations::book(Booking* booking, uint64_t (*usage)(void*), void* context,
                        ReservationTotals* out) {
  Locked locked(&lock_);
  *out = {};
  if (!valid(booking->slot)) {
    booking->verdict = BookingVerdict::kUsage;
    return;
  }
  Slot& slot = slots_[booking->slot];
  const uint64_t now = now_ns();
  sum(slot, now, out);
  booking->verdict = BookingVerdict::kGranted;
  if (!booking->unchecked) {
    out->usage = usage(context);
    uint64_t limit = booking->usage_limit;
    if (booking->can_spill)
      limit = less(limit, less(booking->unspillable_reserve, out->unspillable));
    const uint64_t wanted = out->pending + booking->needed;
    const uint64_t unseen = out->existing - booking->room_existing;
    if (!fits(out->usage, wanted, limit)) {
      booking->verdict = BookingVerdict::kUsage;
    } else if (now > booking->room_until_ns ||
               !fits(unseen + booking->bytes - booking->needed, wanted, booking->room)) {
      booking->verdict = BookingVerdict::kContainer;
    } else if (!fits(out->reserved, booking->bytes, booking->reserved_limit)) {
      booking->verdict = BookingVerdict::kPool;
    }
    if (booking->verdict != BookingVerdict::kGranted) return;
  }
  existing_ += booking->bytes - booking->needed;
  slot.reserved += booking->bytes;
  if (!booking->can_spill) slot.unspillable += booking->bytes;
  slot.pending += booking->needed;
  slot.wheel[slot.step % kWheel] += booking->needed;
}

uint64_t Reservations::give_back(int32_t slot, uint64_t bytes, bool can_spill) {
  Locked locked(&lock_);
  if (!valid(slot)) return 0;
  Slot& of = slots_[slot];
  of.reserved = less(of.reserved, bytes);
  if (!can_spill) of.unspillable = less(of.unspillable, bytes);
  advance(&of, now_ns());
  return of.step;
}

void Reservations::retire(int32_t slot, uint64_t step, uint64_t bytes) {
  Locked locked(&lock_);
  if (!valid(slot)) return;
  Slot& of = slots_[slot];
  advance(&of, now_ns());
  if (step > of.step || of.step - step >= kWheel) return;
  const uint64_t taken = std::min(bytes, of.wheel[step % kWheel]);
  of.wheel[step % kWheel] -= taken;
  of.pending -= taken;
}

void Reservations::now_existing(uint64_t bytes) {
  Locked locked(&lock_);
  existing_ += bytes;
}

void Reservations::read(int32_t slot, ReservationTotals* out) {
  Locked locked(&lock_);
  *out = {};
  if (valid(slot)) sum(slots_[slot], now_ns(), out);
}

// Grants age in milliseconds: a reading of the real clock serves for a moment.
uint64_t Reservations::now_ns() {
  const uint64_t quick = os::quick_clock();
  if (clock_ns_ == 0 || quick - clock_read_at_ > os::kQuickClockMoment) {
    clock_ns_ = os::monotonic_ns();
    clock_read_at_ = quick;
  }
  return clock_ns_;
}

void Reservations::advance(Slot* slot, uint64_t now_ns) {
  if (now_ns < (slot->step + 1) * slot->step_ns) return;
  const uint64_t step = now_ns / slot->step_ns;
  const uint64_t passed = std::min<uint64_t>(step - slot->step, kWheel);
  for (uint64_t i = 1; i <= passed; ++i) {
    uint64_t& aged = slot->wheel[(slot->step + i) % kWheel];
    if (aged == 0) continue;
    slot->pending -= aged;
    existing_ += aged;
    aged = 0;
  }
  slot->step = step;
}

void Reservations::sum(const Slot& slot, uint64_t now_ns, ReservationTotals* out) {
  for (int32_t i = 0; i < highest_; ++i) {
    Slot& other = slots_[i];
    if (!other.used) continue;
    advance(&other, now_ns);
    out->pending += other.pending;
    if (other.key != slot.key) continue;
    out->reserved += other.reserved;
    out->unspillable += other.unspillable;
  }
  out->existing = existing_;
  out->step = slot.step;
  out->now_ns = now_ns;
}

}  // namespace oom_guard
