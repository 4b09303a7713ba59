// Pools of many threads over one limit: never more is let in than fits, a slot that is given up
// gives back what it held, grants age, and all ends at zero.
#include <pthread.h>

#include <atomic>

#include "check.h"
#include "os/os.h"
#include "watch/reservations.h"

namespace {

using oom_guard::Booking;
using oom_guard::BookingVerdict;
using oom_guard::Reservations;
using oom_guard::ReservationTotals;

constexpr int kThreads = 8;
constexpr int kRounds = 20000;
constexpr uint64_t kRequest = 100;
constexpr uint64_t kLimit = 3 * kRequest + kRequest / 2;
constexpr uint64_t kHour = 3600ull * 1000 * 1000 * 1000;

Reservations g_reservations;
std::atomic<uint64_t> g_live{0};
std::atomic<int> g_inside{0};

uint64_t live(void*) {
  return g_live.load();
}

Booking request(int32_t slot, uint64_t bytes, uint64_t needed) {
  Booking booking = {};
  booking.slot = slot;
  booking.bytes = bytes;
  booking.needed = needed;
  booking.usage_limit = kLimit;
  booking.reserved_limit = booking.room = booking.room_until_ns = UINT64_MAX;
  return booking;
}

// Every other grant is allocated: it is in one count or in both, never in none.
void* compete(void*) {
  for (int i = 0; i < kRounds; ++i) {
    const int32_t slot = g_reservations.acquire(1, kHour);
    CHECK(slot >= 0, "no slot");
    Booking booking = request(slot, kRequest, kRequest);
    ReservationTotals totals;
    g_reservations.book(&booking, live, nullptr, &totals);
    if (booking.verdict == BookingVerdict::kGranted) {
      const int inside = g_inside.fetch_add(1) + 1;
      CHECK(inside <= 3, "%d were let in", inside);
      const bool allocates = i % 2 == 0;
      if (allocates) {
        g_live += kRequest;
        g_reservations.retire(slot, totals.step, kRequest);
      }
      g_inside.fetch_sub(1);
      if (allocates) g_live -= kRequest;
      if (i % 3 == 0) g_reservations.give_back(slot, kRequest, false);
    } else {
      CHECK(booking.verdict == BookingVerdict::kUsage, "%d", static_cast<int>(booking.verdict));
    }
    g_reservations.release(slot);
  }
  return nullptr;
}

ReservationTotals read(int32_t slot) {
  ReservationTotals totals;
  g_reservations.read(slot, &totals);
  return totals;
}

BookingVerdict ask(Booking booking) {
  ReservationTotals totals;
  g_reservations.book(&booking, live, nullptr, &totals);
  return booking.verdict;
}

void check_rules() {
  const int32_t a = g_reservations.acquire(1, kHour);
  const int32_t b = g_reservations.acquire(1, kHour);
  const int32_t stranger = g_reservations.acquire(2, kHour);
  Booking booking = request(a, 200, 50);
  booking.reserved_limit = 300;
  CHECK(ask(booking) == BookingVerdict::kGranted, "room for it");
  CHECK(read(b).reserved == 200 && read(stranger).reserved == 0, "shared by key");
  CHECK(read(stranger).pending == 50, "pending counts for all");
  CHECK(read(a).existing >= 150, "what exists is told");
  booking.slot = b;
  CHECK(ask(booking) == BookingVerdict::kPool, "over the shared limit");
  booking.bytes = booking.needed = 100;
  booking.room = 149;
  CHECK(ask(booking) == BookingVerdict::kContainer, "no room");
  booking.room = 1000;
  booking.room_until_ns = 1;
  CHECK(ask(booking) == BookingVerdict::kContainer, "too old");
  booking.room_until_ns = UINT64_MAX;
  booking.room_existing = read(b).existing;
  booking.can_spill = true;
  booking.unspillable_reserve = 450;
  CHECK(ask(booking) == BookingVerdict::kUsage, "not its to take");
  booking.unspillable_reserve = 200;
  CHECK(ask(booking) == BookingVerdict::kGranted, "the others hold their reserve");
  g_reservations.release(a);
  CHECK(read(b).reserved == 100 && read(b).pending == 100, "given back with its slot");
  CHECK(ask(request(a, 1, 1)) == BookingVerdict::kUsage, "not its slot any more");
  CHECK(ask(request(-1, 1, 1)) == BookingVerdict::kUsage, "no slot");
  g_reservations.release(b);
  g_reservations.release(stranger);
}

void check_age() {
  const int32_t slot = g_reservations.acquire(3, 80ull * 1000 * 1000);
  const uint64_t start = oom_guard::os::monotonic_ns();
  CHECK(ask(request(slot, 70, 70)) == BookingVerdict::kGranted, "room for it");
  const uint64_t existing = read(slot).existing;
  uint64_t passed = 0;
  while (read(slot).pending != 0 && passed < 10ull * 1000 * 1000 * 1000) {
    oom_guard::os::sleep_ms(1);
    passed = oom_guard::os::monotonic_ns() - start;
  }
  CHECK(passed >= 79ull * 1000 * 1000, "forgotten after %llu ns",
        static_cast<unsigned long long>(passed));
  CHECK(read(slot).pending == 0 && read(slot).reserved == 70, "aged, still reserved");
  CHECK(read(slot).existing == existing + 70, "a reading of the container may have missed it");
  g_reservations.release(slot);
}

}  // namespace

int main() {
  pthread_t threads[kThreads];
  for (pthread_t& thread : threads) pthread_create(&thread, nullptr, compete, nullptr);
  for (pthread_t& thread : threads) pthread_join(thread, nullptr);
  const int32_t slot = g_reservations.acquire(1, kHour);
  CHECK(read(slot).reserved == 0 && read(slot).pending == 0, "something is left");
  g_reservations.release(slot);
  check_rules();
  check_age();
  int32_t taken = 0;
  while (g_reservations.acquire(4, kHour) >= 0) ++taken;
  CHECK(taken == Reservations::kSlots, "%d slots", taken);
  return 0;
}
