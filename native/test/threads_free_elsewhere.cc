// 16 threads each allocate a million blocks that another thread frees: the books come back to the
// exact byte.
#include "check.h"
#include "churn.h"

int main() {
  engine().start(true, 0);
  oom_guard::EngineAllocator allocator;
  engine().allocator(0, &allocator);
  CHECK(allocator.mechanism != 0, "nothing is counted: %s", allocator.note);
  // The loader caches thread stacks and their thread-local blocks; a first round fills its cache.
  pthread_t warm[churn::kThreads];
  for (auto& thread : warm) {
    pthread_create(
        &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  }
  for (pthread_t thread : warm) pthread_join(thread, nullptr);

  Booked before = booked();
  int64_t live = engine().live();
  churn::churn_round();
  Booked after = booked();
  CHECK(after.allocated - before.allocated > uint64_t{churn::kThreads} * churn::kBlocks * 300,
        "the blocks were not counted");
  CHECK(engine().live() == live, "%lld bytes are left", (long long)(engine().live() - live));
  return 0;
}
