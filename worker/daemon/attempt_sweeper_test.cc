#include "worker/daemon/attempt_sweeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Three file systems; a sweep of one that is dead waits for the test.
class AttemptSweeperTest : public ::testing::Test {
 protected:
  // What sweeps use, which may outlive the test.
  struct World {
    absl::Mutex mutex;
    MonotonicCondition changed;
    std::set<std::string> dead;
    std::vector<std::string> begun;  // sweeps, by the name of their first record
  };

  AttemptSweeper::Options Options(size_t in_all) const {
    AttemptSweeper::Options options;
    options.list = [] {
      std::map<std::string, AttemptSweeper::Records> records;
      for (const char* name : {"a", "b", "c"}) records[name].push_back({name, std::nullopt});
      return records;
    };
    options.sweep = [world = world_](const AttemptSweeper::Records& records, const MountCalls::Enter&) {
      absl::MutexLock lock(&world->mutex);
      world->begun.push_back(records[0].name);
      world->changed.NotifyAll();
      world->changed.Wait(world->mutex, Deadline::After(absl::Seconds(60)),
                          [&] { return world->dead.count(records[0].name) == 0; });
    };
    options.roots = {"/srv/output"};
    options.limits.in_all = in_all;
    return options;
  }
  void SetDead(const std::set<std::string>& dead) {
    absl::MutexLock lock(&world_->mutex);
    world_->dead = dead;
    world_->changed.NotifyAll();
  }
  // Asks again and again, as heartbeats do, until so many sweeps have begun. Returns them, in their order.
  std::vector<std::string> BeginUntil(AttemptSweeper& sweeper, size_t begun) {
    for (const Deadline deadline = Deadline::After(absl::Seconds(30)); !deadline.Expired();) {
      sweeper.Begin();
      absl::MutexLock lock(&world_->mutex);
      const auto enough = [&] { return world_->begun.size() >= begun; };
      if (world_->changed.Wait(world_->mutex, Deadline::After(absl::Milliseconds(100)), enough)) return world_->begun;
    }
    return {};
  }

  const std::shared_ptr<World> world_ = std::make_shared<World>();
};

TEST_F(AttemptSweeperTest, AFileSystemThatDoesNotAnswerIsSweptOnceAndKeepsNoOther) {
  SetDead({"b"});
  AttemptSweeper sweeper(Options(/*in_all=*/16));
  const std::vector<std::string> begun = BeginUntil(sweeper, 9);
  int of_dead = 0;
  for (const std::string& mount_point : begun) of_dead += mount_point == "b";
  EXPECT_EQ(of_dead, 1);
  EXPECT_GE(begun.size(), 9);
  SetDead({});
}

TEST_F(AttemptSweeperTest, WhatFoundNoRoomComesFirst) {
  SetDead({"a", "b"});
  AttemptSweeper sweeper(Options(/*in_all=*/2));
  EXPECT_THAT(BeginUntil(sweeper, 2), UnorderedElementsAre("a", "b"));
  sweeper.Begin();  // there is no room for "c", now or then
  SetDead({"b"});
  const std::vector<std::string> begun = BeginUntil(sweeper, 3);
  ASSERT_GE(begun.size(), 3);
  EXPECT_EQ(begun[2], "c");
  SetDead({});
}

}  // namespace
}  // namespace adjoin
