// Everything that can be read is read while threads allocate. What is in flight may make live too
// large, never too small: a guard must not be told of room that is not there.
#include "books.h"
#include "churning.h"

int main() {
  start_counting();
  int64_t least = engine().live();
  Booked before = booked();
  Churning churning(4);
  unsigned rounds = 0, images = 0;
  repeat_for(1500, [&] {
    int64_t live = engine().live();
    CHECK(live >= least, "live is %lld below what is held", (long long)(least - live));
    oom_guard::EngineAllocator allocator;
    engine().allocator(0, &allocator);
    CHECK(allocator.allocated >= allocator.freed || allocator.baseline > 0, "the totals cross");
    Booked now = booked();
    CHECK(now.allocated >= before.allocated && now.freed >= before.freed, "a total went back");
    before = now;
    uint64_t bytes = 0;
    if (rounds++ % 16 == 0) {
      engine().in_use(0, &bytes);
      images = 0;
      engine().each_image([](void* count, const oom_guard::EngineImage&) { ++*(unsigned*)count; },
                          &images);
      CHECK(images >= 3, "only %u images", images);
    }
    engine().rescan();
  });
  churning.stop();
  CHECK(rounds > 20, "only %u rounds", rounds);
  CHECK(engine().live() == least, "%lld bytes are left", (long long)(engine().live() - least));
  return 0;
}
