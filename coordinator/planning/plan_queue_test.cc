#include "coordinator/planning/plan_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kLong = 1e9;

class PlanQueueTest : public ::testing::Test {
 protected:
  void Add(uint64_t ticket, const std::string& owner, double work) {
    ASSERT_EQ(queue_.Add({.ticket = ticket, .owner = owner, .work = work, .bytes = 10}), absl::OkStatus());
  }
  // Everything that may begin now.
  std::vector<uint64_t> Begun() {
    std::vector<uint64_t> begun;
    while (std::optional<uint64_t> ticket = queue_.Take(now_)) begun.push_back(*ticket);
    return begun;
  }
  void EndAfter(uint64_t ticket, absl::Duration time) {
    now_ += time;
    queue_.End(ticket, now_);
  }

  PlanQueue queue_{{.planners = 3, .most_waiting = 12, .most_bytes = 200}};
  absl::Duration now_ = absl::Hours(1);
};

TEST_F(PlanQueueTest, SmallOnesOfAnOwnerComeFirst) {
  Add(1, "alice", 30);
  Add(2, "alice", 10);
  Add(3, "alice", 20);
  Add(4, "alice", 10);
  EXPECT_THAT(Begun(), ElementsAre(2, 4, 3));
  EndAfter(4, absl::Milliseconds(1));
  EXPECT_THAT(Begun(), ElementsAre(1));
}

TEST_F(PlanQueueTest, AShortPlanNeverWaitsForLongOnes) {
  for (uint64_t ticket = 1; ticket <= 11; ++ticket) Add(ticket, "alice", kLong);
  Add(12, "carol", kLong);
  EXPECT_THAT(Begun(), ElementsAre(1, 12));  // one planner is left
  Add(21, "bob", 5);
  EXPECT_THAT(Begun(), ElementsAre(21));
  EndAfter(21, absl::Milliseconds(1));
  Add(22, "alice", 5);  // from the same owner, too
  EXPECT_THAT(Begun(), ElementsAre(22));
}

TEST_F(PlanQueueTest, LongPlansOfOneOwnerLeaveAPlannerToLongOnesOfOthers) {
  PlanQueue queue({.planners = 5});
  const auto add = [&](uint64_t ticket, const std::string& owner, double work) {
    ASSERT_EQ(queue.Add({.ticket = ticket, .owner = owner, .work = work}), absl::OkStatus());
  };
  for (uint64_t ticket = 1; ticket <= 6; ++ticket) add(ticket, "alice", kLong);
  for (uint64_t ticket : {1, 2, 3}) EXPECT_EQ(queue.Take(now_), ticket);
  EXPECT_EQ(queue.Take(now_), std::nullopt);
  add(11, "bob", 2 * kLong);
  EXPECT_EQ(queue.Take(now_), 11);
  add(12, "bob", 5);
  EXPECT_EQ(queue.Take(now_), 12);
  // Two of alice's are left, and none of bob's that is long.
  queue.End(1, now_);
  queue.End(11, now_);
  EXPECT_EQ(queue.Take(now_), 4);
  EXPECT_EQ(queue.Take(now_), std::nullopt);
  EXPECT_TRUE(queue.MayGoOn(12));  // a short one of bob's turns out to be long, and takes it
  add(13, "bob", kLong);
  EXPECT_EQ(queue.Take(now_), std::nullopt);
}

TEST_F(PlanQueueTest, OwnersTakeTurns) {
  for (uint64_t ticket = 1; ticket <= 6; ++ticket) Add(ticket, "alice", 5);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3));
  Add(11, "bob", 1000);  // larger and later, but he has none under way
  Add(21, "carol", 1000);
  EndAfter(1, absl::Seconds(1));
  EXPECT_THAT(Begun(), ElementsAre(11));
  EndAfter(2, absl::Seconds(1));
  EXPECT_THAT(Begun(), ElementsAre(21));
  EndAfter(3, absl::Seconds(1));
  EXPECT_THAT(Begun(), ElementsAre(4));
}

TEST_F(PlanQueueTest, WhoUsedLessTimeComesFirstUntilItIsForgotten) {
  PlanQueue queue({.planners = 2});
  ASSERT_EQ(queue.Add({.ticket = 1, .owner = "alice", .work = kLong}), absl::OkStatus());
  ASSERT_EQ(queue.Add({.ticket = 2, .owner = "alice", .work = kLong}), absl::OkStatus());
  EXPECT_EQ(queue.Take(now_), 1);
  ASSERT_EQ(queue.Add({.ticket = 3, .owner = "bob", .work = 2 * kLong}), absl::OkStatus());
  EXPECT_EQ(queue.Take(now_), std::nullopt);
  now_ += absl::Seconds(40);
  queue.End(1, now_);
  EXPECT_EQ(queue.Take(now_), 3);
  now_ += absl::Seconds(10);
  queue.End(3, now_);
  // An hour later both are as if they had never come: the older one is first.
  now_ += absl::Hours(1);
  ASSERT_EQ(queue.Add({.ticket = 4, .owner = "bob", .work = kLong}), absl::OkStatus());
  EXPECT_EQ(queue.Take(now_), 2);
}

TEST_F(PlanQueueTest, AShortPlanThatTurnsOutToBeLongCountsAsOne) {
  Add(1, "alice", 5);
  Add(2, "alice", 5);
  Add(3, "alice", 5);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(queue_.MayGoOn(1));
  EXPECT_TRUE(queue_.MayGoOn(2));
  EXPECT_TRUE(queue_.MayGoOn(3));  // nobody waits for the last planner
  Add(11, "bob", 5);
  EXPECT_TRUE(queue_.MayGoOn(1));
  EXPECT_FALSE(queue_.MayGoOn(3));
  queue_.End(3, now_);
  ASSERT_EQ(queue_.Add(queue_.AsLong({.ticket = 3, .owner = "alice", .work = 5})), absl::OkStatus());
  EXPECT_THAT(Begun(), ElementsAre(11));
  EndAfter(1, absl::Seconds(1));
  EXPECT_THAT(Begun(), ElementsAre(3));
  EXPECT_TRUE(queue_.MayGoOn(3));
}

TEST_F(PlanQueueTest, OneThatTurnsOutToBeLongMakesRoomForALongOneOfAnother) {
  for (uint64_t ticket : {1, 2, 3}) Add(ticket, "alice", 5);
  EXPECT_THAT(Begun(), ElementsAre(1, 2, 3));
  for (uint64_t ticket : {1, 2, 3}) EXPECT_TRUE(queue_.MayGoOn(ticket));
  Add(4, "alice", kLong);
  EXPECT_TRUE(queue_.MayGoOn(2)) << "her own wait for her others";
  Add(11, "bob", kLong);
  EXPECT_TRUE(queue_.MayGoOn(1)) << "she may have one";
  EXPECT_FALSE(queue_.MayGoOn(2));
  queue_.End(2, now_);
  EXPECT_THAT(Begun(), ElementsAre(11));
  EXPECT_TRUE(queue_.MayGoOn(3)) << "nobody else waits";
}

TEST_F(PlanQueueTest, EachOwnerHasALimit) {
  for (uint64_t ticket = 1; ticket <= 12; ++ticket) Add(ticket, "alice", 5);
  const absl::Status refused = queue_.Add({.ticket = 13, .owner = "alice", .bytes = 10});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("12 submissions of yours wait for their plans"));
  EXPECT_EQ(queue_.Add({.ticket = 14, .owner = "bob", .bytes = 201}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue_.Add({.ticket = 15, .owner = "alice", .bytes = 10, .exempt = true}), absl::OkStatus());
  Add(16, "bob", 5);
}

TEST_F(PlanQueueTest, OnlyAPlanThatWaitsCanBeRemoved) {
  Add(1, "alice", 5);
  Add(2, "alice", 5);
  EXPECT_TRUE(queue_.Remove(2));
  EXPECT_FALSE(queue_.Remove(2));
  EXPECT_THAT(Begun(), ElementsAre(1));
  EXPECT_FALSE(queue_.Remove(1));
  EXPECT_EQ(queue_.waiting(), 0);
}

}  // namespace
}  // namespace adjoin
