#include "coordinator/decisions/memory_behind.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/worker_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {
namespace {

// True where some set of the worker's jobs may end, after which it has more free slots than memory for ranks of `head`
// bytes each.
bool MayLackMemory(int64_t memory, int slots, const std::vector<Held>& jobs, int64_t head) {
  for (int ended = 0; ended < 1 << jobs.size(); ++ended) {
    int64_t left = memory, free = slots;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if ((ended >> i & 1) != 0) continue;
      left -= jobs[i].memory;
      free -= jobs[i].slots;
    }
    if (left < free * head) return true;
  }
  return false;
}

TEST(MemoryBehindTest, MemoryMayBindExactlyWhereSomeJobsEndsLeaveASlotWithoutIt) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); };
  int bound = 0, free = 0;
  for (int round = 0; round < 3000; ++round) {
    CoordinationOptions options;
    options.wall_clock = [] { return absl::UnixEpoch(); };
    options.monotonic_clock = [] { return absl::Seconds(1000); };
    Outbox outbox(options);
    WorkerTable workers(options, outbox);
    const int64_t head = 1 + draw(20);
    bool may_bind = false;
    const int count = 1 + draw(3);
    for (int w = 0; w < count; ++w) {
      const std::string name = absl::StrCat("worker-", w);
      WorkerHello hello;
      hello.set_name(name);
      hello.set_incarnation(1);
      hello.set_slots(static_cast<uint32_t>(1 + draw(5)));
      if (draw(5) > 0) hello.set_memory_bytes(static_cast<uint64_t>(1 + draw(150)));
      workers.Attach(static_cast<ConnectionId>(w + 1), hello);
      std::vector<Held> jobs(draw(4));
      for (size_t i = 0; i < jobs.size(); ++i) {
        jobs[i] = {.slots = 1 + draw(2), .gpus = 0, .memory = draw(40)};
        workers.Hold(name, i + 1, jobs[i]);
      }
      const bool is_lost = draw(6) == 0;
      if (is_lost) workers.Lose(name);
      if (is_lost || hello.memory_bytes() == 0) continue;
      may_bind = may_bind ||
                 MayLackMemory(static_cast<int64_t>(hello.memory_bytes()), static_cast<int>(hello.slots()), jobs, head);
    }
    ASSERT_EQ(MemoryBehind::Of(head, workers).may_bind(), may_bind) << "round " << round;
    may_bind ? ++bound : ++free;
  }
  EXPECT_GT(bound, 100);
  EXPECT_GT(free, 100);
}

}  // namespace
}  // namespace adjoin
