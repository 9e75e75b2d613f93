// What a user's jobs may take beside those of others: limits that operators set, and turns among users of one priority.
#include "coordinator/decisions/user_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_fixture.h"
#include "coordinator/decisions/waiting_jobs.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

UserLimit Limit(const std::string& text) {
  absl::StatusOr<UserLimit> limit = UserLimit::Parse(text);
  EXPECT_TRUE(limit.ok()) << limit.status();
  return limit.ok() ? *limit : UserLimit();
}

TEST(UserLimitTest, ANumberForAllAndOthersByName) {
  const UserLimit limit = Limit("16, alice=32,bob = unlimited,carol=0");
  EXPECT_EQ(limit.Of("dave"), 16);
  EXPECT_EQ(limit.Of("alice"), 32);
  EXPECT_EQ(limit.Of("bob"), UserLimit::kUnlimited);
  EXPECT_EQ(limit.Of("carol"), 0);
  EXPECT_EQ(Limit("alice=1").Of("bob"), UserLimit::kUnlimited);
  EXPECT_EQ(Limit(" ").Of("bob"), UserLimit::kUnlimited);
}

TEST(UserLimitTest, WhatIsNoLimitIsRefusedByItsText) {
  const auto refusal = [](const std::string& text) { return std::string(UserLimit::Parse(text).status().message()); };
  EXPECT_EQ(refusal("many"), "'many' is neither a number up to 1000000000 nor unlimited");
  EXPECT_THAT(refusal("alice=-1"), HasSubstr("'-1'"));
  EXPECT_THAT(refusal("alice=+1"), HasSubstr("'+1'"));
  EXPECT_THAT(refusal("1000000001"), HasSubstr("'1000000001'"));
  EXPECT_THAT(refusal("1,"), HasSubstr("''"));
  EXPECT_EQ(refusal("=3"), "a name is missing before '=': NAME=N");
  EXPECT_EQ(refusal("3,4"), "two numbers without a name: one holds for all users");
  EXPECT_EQ(refusal("a=3,a=4"), "'a' is there twice");
}

class UserLimitsTest : public CoordinationTest {
 protected:
  static NewJob Of(const std::string& owner, uint32_t ranks = 1, int priority = 0) {
    NewJob job;
    job.spec = Spec("net", ranks);
    job.owner = owner;
    job.priority = priority;
    return job;
  }
  std::string Refusal(NewJob job) {
    absl::StatusOr<Submitted> submitted = service_->Submit(std::move(job));
    Settle();
    return std::string(submitted.status().message());
  }
  // On worker-0, which is connection 1.
  void Finish(const std::string& job) {
    const uint32_t ranks = Describe(job)->rank_size();
    for (uint32_t rank = 0; rank < ranks; ++rank) Ready(1, job, rank);
    for (uint32_t rank = 0; rank < ranks; ++rank) EndedAs(1, job, rank, RANK_SUCCEEDED);
    Cleared(1, job);
  }
  std::vector<std::string> Started(const std::vector<std::string>& jobs) {
    std::vector<std::string> started;
    for (const std::string& job : jobs) {
      if (Job(job).state() != PENDING) started.push_back(job);
    }
    return started;
  }
};

TEST_F(UserLimitsTest, AJobThatCouldNeverStartIsRefused) {
  options_.user_limits.slots = Limit("4,alice=8");
  Restart();
  EXPECT_EQ(Refusal(Of("bob", 5)),
            "it needs 5 slots, and jobs of bob may have at most 4 (the coordinator's --user-slots): cut the job over "
            "fewer ranks, or ask an operator for more");
  EXPECT_EQ(Refusal(Of("bob", 4)), "");
  EXPECT_EQ(Refusal(Of("alice", 8)), "");
  NewJob of_admin = Of("root", 20);
  of_admin.any_folder = true;
  EXPECT_EQ(Refusal(of_admin), "");
}

TEST_F(UserLimitsTest, JobsThatWaitAreCountedByUser) {
  options_.user_limits.queued_jobs = Limit("2");
  Restart();
  const std::string first = Submit(Of("alice")), second = Submit(Of("alice"));
  EXPECT_EQ(Refusal(Of("alice")),
            "2 jobs of alice wait, and at most 2 may (the coordinator's --user-queued-jobs); try again later");
  EXPECT_EQ(Refusal(Of("bob")), "");
  EXPECT_EQ(*service_->Cancel(first), CANCELLED);
  Settle();
  EXPECT_EQ(Refusal(Of("alice")), "");
  EXPECT_THAT(std::string(service_->Retry(first).status().message()), HasSubstr("2 jobs of alice wait"));
  EXPECT_EQ(Job(first).state(), CANCELLED);
}

TEST_F(UserLimitsTest, AUsersJobsWaitForEachOtherAndNotTheOthers) {
  options_.user_limits.slots = Limit("4");
  Restart();
  Connect(1, "worker-0", 16);
  const std::string first = Submit(Of("alice", 3)), large = Submit(Of("alice", 2)), small = Submit(Of("alice", 1));
  const std::string other = Submit(Of("bob", 4));
  EXPECT_THAT(Started({first, large, small, other}), ElementsAre(first, other));
  EXPECT_EQ(Job(large).reason(),
            "it needs 2 slots, and jobs of alice have 3 of the 4 that they may (the coordinator's --user-slots)");
  EXPECT_EQ(Job(small).state(), PENDING) << "it does not get ahead of the one before it";
  Finish(first);
  EXPECT_THAT(Started({large, small}), ElementsAre(large, small));
}

TEST_F(UserLimitsTest, ALimitThatWasLoweredKeepsOnlyTheJobThatIsTooLarge) {
  const std::string large = Submit(Of("alice", 8)), small = Submit(Of("alice", 1));
  options_.user_limits.slots = Limit("4");
  Restart();
  Connect(1, "worker-0", 16);
  EXPECT_THAT(Started({large, small}), ElementsAre(small));
  EXPECT_EQ(Job(large).reason(),
            "it needs 8 slots, and jobs of alice may have at most 4 (the coordinator's --user-slots)");
}

TEST_F(UserLimitsTest, AmongUsersOfOnePriorityTheOneWithTheFewestSlotsIsNext) {
  std::vector<std::string> alices, bobs;
  for (int i = 0; i < 6; ++i) alices.push_back(Submit(Of("alice")));
  for (int i = 0; i < 3; ++i) bobs.push_back(Submit(Of("bob")));
  EXPECT_EQ(Job(alices[5]).queue_position(), 6);
  EXPECT_EQ(Job(bobs[2]).queue_position(), 3) << "its own jobs are before it";
  Connect(1, "worker-0", 4);
  EXPECT_THAT(Started(alices), ElementsAre(alices[0], alices[1]));
  EXPECT_THAT(Started(bobs), ElementsAre(bobs[0], bobs[1]));
  Finish(alices[0]);
  EXPECT_THAT(Started(alices), ElementsAre(alices[0], alices[1], alices[2]));
  Finish(bobs[0]);
  EXPECT_THAT(Started(alices), ElementsAre(alices[0], alices[1], alices[2], alices[3]))
      << "it was next when both had two slots";
  Finish(alices[1]);
  EXPECT_THAT(Started(bobs), ElementsAre(bobs[0], bobs[1], bobs[2]));
  const std::string urgent = Submit(Of("alice", 1, /*priority=*/1));
  Finish(bobs[1]);
  EXPECT_EQ(Job(urgent).state(), STARTING) << "a higher priority comes before turns";
}

TEST_F(UserLimitsTest, AUsersLargeJobIsNotPassedByAnothersStream) {
  Connect(1, "worker-0", 4);
  const std::string runs = Submit(Of("bob", 2));
  const std::string large = Submit(Of("alice", 4));
  std::vector<std::string> stream;
  for (int i = 0; i < 5; ++i) stream.push_back(Submit(Of("bob", 2)));
  EXPECT_THAT(Started({large}), IsEmpty());
  EXPECT_THAT(Started(stream), IsEmpty());
  Finish(runs);
  EXPECT_THAT(Started({large}), ElementsAre(large));
}

// The same where its owner has slots and those of the stream have none in between.
TEST_F(UserLimitsTest, AJobThatWaitsForSlotsKeepsItsPlace) {
  Connect(1, "worker-0", 8);
  const std::string long_one = Submit(Of("alice", 1));
  std::string bob = Submit(Of("bob", 4)), carol = Submit(Of("carol", 3));
  ASSERT_THAT(Started({long_one, bob, carol}), ElementsAre(long_one, bob, carol));
  const std::string large = Submit(Of("alice", 7));
  const std::string next_bob = Submit(Of("bob", 4)), next_carol = Submit(Of("carol", 3));
  Finish(bob);
  EXPECT_THAT(Started({large, next_bob, next_carol}), IsEmpty()) << "its slots are kept";
  Finish(carol);
  EXPECT_THAT(Started({large, next_bob, next_carol}), ElementsAre(large));
  const std::string urgent = Submit(Of("bob", 1, /*priority=*/1));
  Finish(large);
  EXPECT_THAT(Started({urgent, next_bob, next_carol}), ElementsAre(urgent, next_carol))
      << "of one slot and three in use, four are left";
}

TEST_F(UserLimitsTest, JobsOfAdminsOfTheSameNameAreUnderNoLimit) {
  options_.user_limits.slots = Limit("1");
  Restart();
  Connect(1, "worker-0", 4);
  const std::string first = Submit(Of("alice")), second = Submit(Of("alice"));
  NewJob of_admin = Of("alice", 2);
  of_admin.any_folder = true;
  const std::string admins = Submit(of_admin);
  EXPECT_THAT(Started({first, second, admins}), ElementsAre(first, admins));
  Finish(first);
  EXPECT_THAT(Started({second}), ElementsAre(second)) << "the admin's slots are not the user's";
}

// The order of a visit against one that looks at all jobs each time.
TEST(WaitingJobsTest, AVisitTakesTheTurnsThatLookingAtAllJobsGives) {
  const uint64_t seed = TestSeed();
  for (uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed << ", round " << round);
    std::mt19937_64 random(seed + round);
    WaitingJobs waiting;
    std::vector<std::unique_ptr<JobRecord>> records;
    std::vector<JobRecord*> left;
    std::map<std::string, uint64_t> slots;
    const uint64_t jobs = random() % 30;
    for (uint64_t number = 1; number <= jobs; ++number) {
      auto job = std::make_unique<JobRecord>();
      job->number = number;
      job->owner = std::string(1, static_cast<char>('a' + random() % 4));
      job->priority = static_cast<int32_t>(random() % 3);
      job->spec.set_ranks(1 + random() % 4);
      slots[job->owner] = random() % 5;
      waiting.Add(*job);
      left.push_back(job.get());
      records.push_back(std::move(job));
    }
    ASSERT_EQ(waiting.size(), left.size());
    std::vector<uint64_t> visited, expected;
    std::vector<WaitingJobs::Next> answers;
    std::set<uint64_t> starts;
    for (const JobRecord* job : left) {
      if (random() % 2 == 0) starts.insert(job->number);
      const uint64_t answer = random() % 16;
      answers.push_back(answer == 0   ? WaitingJobs::Next::kStop
                        : answer == 1 ? WaitingJobs::Next::kUser
                                      : WaitingJobs::Next::kJob);
    }
    for (const auto& [user, used] : slots) waiting.SetSlots(user, used);
    const JobRecord* first = left.empty() || random() % 2 == 0 ? nullptr : left[random() % left.size()];
    waiting.Visit(first, [&](JobRecord& job) {
      visited.push_back(job.number);
      if (starts.count(job.number) > 0) {
        waiting.Remove(job);
        waiting.SetSlots(job.owner, waiting.SlotsOf(job.owner) + job.spec.ranks());
      }
      return answers[job.number - 1];
    });
    while (!left.empty()) {
      const auto next = std::min_element(left.begin(), left.end(), [&](const JobRecord* a, const JobRecord* b) {
        return std::tuple(-a->priority, a != first, slots[a->owner], a->number) <
               std::tuple(-b->priority, b != first, slots[b->owner], b->number);
      });
      const JobRecord& job = **next;
      expected.push_back(job.number);
      if (starts.count(job.number) > 0) slots[job.owner] += job.spec.ranks();
      left.erase(next);
      const WaitingJobs::Next answer = answers[job.number - 1];
      if (answer == WaitingJobs::Next::kStop) break;
      if (answer == WaitingJobs::Next::kUser) {
        left.erase(
            std::remove_if(left.begin(), left.end(), [&](const JobRecord* other) { return other->owner == job.owner; }),
            left.end());
      }
    }
    EXPECT_EQ(visited, expected);
    for (const auto& job : records) {
      const bool gone =
          starts.count(job->number) > 0 && std::find(visited.begin(), visited.end(), job->number) != visited.end();
      EXPECT_EQ(waiting.PositionOf(*job) == 0, gone) << job->number;
    }
  }
}

}  // namespace
}  // namespace adjoin
