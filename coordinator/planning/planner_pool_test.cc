#include "coordinator/planning/planner_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Planners that answer when the test says so; what they do is told by the name of the task.
class Stage {
 public:
  // Returns when the plan is let go, or `go_on` does not want it any more.
  absl::StatusOr<PlanAnswer> Make(const PlanTask& task, const std::function<bool()>& go_on) {
    {
      absl::MutexLock lock(&mutex_);
      begun_.push_back(task.name);
      changed_.NotifyAll();
    }
    if (task.name == "throws") throw std::runtime_error("a rule threw");
    if (task.name == "dies") return absl::AbortedError("killed by signal 9");
    if (task.name == "dies of a guess" && !task.as_if_unseen) return absl::AbortedError("it took longer than 60s");
    if (task.name == "dies once" && Count("dies once") == 1) return absl::AbortedError("killed by signal 9");
    for (const Deadline deadline = Deadline::After(absl::Seconds(30)); task.name.substr(0, 4) == "long";) {
      if (!go_on()) return absl::CancelledError("not wanted");
      if (deadline.Expired()) return absl::InternalError("the test forgot it");
      absl::MutexLock lock(&mutex_);
      auto let_go = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return released_.count(task.name) > 0; };
      if (changed_.Wait(mutex_, Deadline::After(absl::Milliseconds(1)), let_go)) break;
    }
    PlanAnswer answer;
    answer.set_hash(task.name);
    return answer;
  }
  void Release(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    released_.insert(name);
    changed_.NotifyAll();
  }
  int Count(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    return static_cast<int>(std::count(begun_.begin(), begun_.end(), name));
  }
  void AwaitBegun(const std::string& name, int times = 1) {
    absl::MutexLock lock(&mutex_);
    auto begun = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::count(begun_.begin(), begun_.end(), name) >= times;
    };
    EXPECT_TRUE(changed_.Wait(mutex_, Deadline::After(absl::Seconds(30)), begun)) << name;
  }

 private:
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::vector<std::string> begun_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> released_ ABSL_GUARDED_BY(mutex_);
};

class StagedMaker final : public PlanMaker {
 public:
  explicit StagedMaker(Stage& stage) : stage_(stage) {}
  absl::StatusOr<PlanAnswer> Make(const PlanTask& task, const std::function<bool()>& go_on) override {
    return stage_.Make(task, go_on);
  }

 private:
  Stage& stage_;
};

class PlannerPoolTest : public ::testing::Test {
 protected:
  static PlannerPool::Options Quick() {
    PlannerPool::Options options;
    options.planners = 2;
    options.short_plan = absl::Milliseconds(20);
    options.grace = absl::Milliseconds(20);
    return options;
  }
  static PlanTask Task(const std::string& name, const std::string& owner = "alice", uint32_t ranks = 1) {
    SubmittedSpec spec;
    spec.source = "ranks: " + std::to_string(ranks) + std::string(2000, ' ');
    PlanTask task;
    task.owner = owner;
    task.name = name;
    task.spec = std::make_shared<const SubmittedSpec>(std::move(spec));
    return task;
  }
  void Start(const std::string& name, const std::string& owner, uint32_t ranks) {
    absl::StatusOr<uint64_t> ticket = pool_.Start(Task(name, owner, ranks), [this, name](absl::StatusOr<PlanAnswer> a) {
      absl::MutexLock lock(&mutex_);
      ended_.push_back(absl::StrCat(name, a.ok() ? "" : ": ", a.ok() ? "" : std::string(a.status().message())));
      changed_.NotifyAll();
    });
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets_[name] = *ticket;
  }
  std::vector<std::string> Ended(size_t count) {
    absl::MutexLock lock(&mutex_);
    auto all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_.size() >= count; };
    EXPECT_TRUE(changed_.Wait(mutex_, Deadline::After(absl::Seconds(30)), all));
    return ended_;
  }
  absl::StatusOr<PlanAnswer> Plan(const std::string& name) {
    return PlanAndWait(pool_, Task(name), [] { return false; });
  }

  Stage stage_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> tickets_;
  PlannerPool pool_{Quick(), [this] { return std::make_unique<StagedMaker>(stage_); }};
};

TEST_F(PlannerPoolTest, ASmallPlanDoesNotWaitForTwelveLargeOnes) {
  for (int i = 0; i < 12; ++i) Start(absl::StrCat("long-", i), "alice", 1024);
  stage_.AwaitBegun("long-0");
  EXPECT_EQ(PlanAndWait(pool_, Task("small", "bob"), [] { return false; })->hash(), "small");
  EXPECT_EQ(pool_.waiting(), 11);
  for (int i = 0; i < 12; ++i) stage_.Release(absl::StrCat("long-", i));
  EXPECT_EQ(Ended(12).size(), 12);
}

TEST_F(PlannerPoolTest, APlanThatOnlySeemedSmallBeginsAnewWhereOthersWait) {
  Start("long-large", "alice", 1024);
  stage_.AwaitBegun("long-large");
  Start("long-but-seems-small", "alice", 1);
  stage_.AwaitBegun("long-but-seems-small");
  EXPECT_EQ(PlanAndWait(pool_, Task("small", "bob"), [] { return false; })->hash(), "small");
  stage_.Release("long-large");
  stage_.AwaitBegun("long-but-seems-small", 2);
  stage_.Release("long-but-seems-small");
  EXPECT_THAT(Ended(2), ElementsAre("long-large", "long-but-seems-small"));
}

TEST_F(PlannerPoolTest, APlannerThatEndedIsTriedOnceMore) {
  EXPECT_EQ(Plan("dies once")->hash(), "dies once");
  const absl::Status failed = Plan("dies").status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("killed by signal 9"));
  EXPECT_EQ(stage_.Count("dies"), 2);
}

TEST_F(PlannerPoolTest, APlannerThatEndedIsTriedOnceMoreWithoutAGuess) {
  EXPECT_EQ(Plan("dies of a guess")->hash(), "dies of a guess");
  EXPECT_EQ(stage_.Count("dies of a guess"), 2);
}

TEST_F(PlannerPoolTest, WhatIsThrownIsAnErrorOfThatPlanOnly) {
  const absl::Status failed = Plan("throws").status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("the planner of throws threw \"a rule threw\""));
  EXPECT_EQ(Plan("small")->hash(), "small");
}

TEST_F(PlannerPoolTest, APlanThatIsGivenUpLeavesTheQueueOrEnds) {
  Start("long-large", "alice", 1024);
  stage_.AwaitBegun("long-large");
  Start("long-waits", "alice", 1024);
  pool_.GiveUp(tickets_["long-waits"]);
  EXPECT_EQ(pool_.waiting(), 0);
  pool_.GiveUp(tickets_["long-large"]);
  EXPECT_THAT(Ended(1), ElementsAre("long-large: not wanted"));
  bool gone = false;
  const absl::Status given_up =
      PlanAndWait(pool_, Task("long-given-up"), [&] { return std::exchange(gone, true); }).status();
  EXPECT_EQ(given_up.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(stage_.Count("long-waits"), 0);
}

TEST_F(PlannerPoolTest, StopEndsWhatIsUnderWayAndWhatWaits) {
  Start("long-1", "alice", 1024);
  Start("long-2", "alice", 1024);
  stage_.AwaitBegun("long-1");
  pool_.Stop();
  EXPECT_THAT(Ended(2), ElementsAre(HasSubstr("the coordinator stops"), HasSubstr("the coordinator stops")));
  EXPECT_EQ(Plan("late").status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace adjoin
