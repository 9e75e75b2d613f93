#include "coordinator/placement/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> Ranks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

CandidateGroup Group(const std::vector<std::pair<absl::string_view, int>>& slots) {
  CandidateGroup group;
  for (const auto& [worker, free] : slots) group.push_back({worker, free, free});
  return group;
}

// What the policy assigns; empty where it assigns nothing.
Assignment Compact(const std::vector<int>& order, const CandidateGroup& group, const Assignment& before = {}) {
  absl::StatusOr<Assignment> workers = AssignCompactly({group}, {order, before});
  if (workers.ok()) return *workers;
  EXPECT_EQ(workers.status().code(), absl::StatusCode::kResourceExhausted);
  return {};
}

TEST(AssignCompactlyTest, OneWorkerTakesAllRanksWhereOneCanTheOneWithTheFewestSlots) {
  EXPECT_THAT(Compact(Ranks(2), Group({{"a", 4}, {"b", 2}, {"c", 1}})), ElementsAre("b", "b"));
}

TEST(AssignCompactlyTest, ConsecutiveRanksStayTogether) {
  EXPECT_THAT(Compact(Ranks(5), Group({{"a", 1}, {"b", 3}, {"c", 2}})), ElementsAre("b", "b", "b", "c", "c"));
}

TEST(AssignCompactlyTest, RanksThatFollowEachOtherInTheOrderStayTogether) {
  EXPECT_THAT(Compact({0, 2, 1, 3}, Group({{"a", 2}, {"b", 2}})), ElementsAre("a", "b", "a", "b"));
}

TEST(AssignCompactlyTest, AssignsAllRanksOrNone) {
  EXPECT_THAT(Compact(Ranks(7), Group({{"a", 1}, {"b", 3}, {"c", 2}})), ElementsAre());
  EXPECT_THAT(Compact(Ranks(3), {{"a", 8, 1}, {"b", 8, 1}}), ElementsAre());
  EXPECT_THAT(Compact(Ranks(2), {{"a", 8, 1}, {"b", 8, 1}}), ElementsAre("a", "b"));
}

TEST(AssignCompactlyTest, RanksKeepTheirWorkers) {
  const Assignment before = {"b", "b", "c", "c"};
  EXPECT_THAT(Compact(Ranks(4), Group({{"a", 8}, {"b", 2}, {"c", 2}}), before), ElementsAre("b", "b", "c", "c"));
  EXPECT_THAT(Compact(Ranks(4), Group({{"a", 8}, {"c", 2}}), before), ElementsAre("a", "a", "c", "c")) << "b is gone";
  EXPECT_THAT(Compact(Ranks(4), {{"a", 8, 2}, {"c", 2, 2}}, {"a", "a", "a", "c"}), ElementsAre("a", "a", "c", "c"));
}

TEST(AssignCompactlyTest, TheGroupOfTheAttemptBeforeComesFirstThenTheOneWithTheFewestFreeSlots) {
  const std::vector<CandidateGroup> groups = {Group({{"a", 8}}), {{"b", 4, 2}}, {{"c", 6, 1}}};
  EXPECT_THAT(*AssignCompactly(groups, {Ranks(1), {}}), ElementsAre("b"));
  EXPECT_THAT(*AssignCompactly(groups, {Ranks(1), {"c"}}), ElementsAre("c"));
  EXPECT_THAT(*AssignCompactly(groups, {Ranks(2), {"c", "c"}}), ElementsAre("b", "b"));
}

JobSpec Job(uint32_t ranks, bool checkpoints) {
  JobSpec spec;
  spec.set_kind(TRAIN);
  spec.set_ranks(ranks);
  if (checkpoints) spec.mutable_checkpoint()->set_dir("c");
  return spec;
}

const std::vector<FreeSlots> kNodes = {{"a", 2, "one"}, {"b", 2, "two"}, {"c", 2, "one"}, {"d", 3, ""}, {"e", 3, ""}};

Assignment Assigned(const JobSpec& spec, const std::vector<FreeSlots>& free, const Assignment& before = {},
                    const std::string& home = "") {
  absl::StatusOr<Assignment> workers = Assign(&AssignCompactly, spec, free, before, home);
  return workers.ok() ? *workers : Assignment();
}

TEST(AssignTest, RanksThatShareFilesStayOnOneFileSystem) {
  EXPECT_THAT(Assigned(Job(4, true), kNodes), ElementsAre("a", "a", "c", "c"));
  EXPECT_THAT(Assigned(Job(2, true), kNodes), ElementsAre("b", "b"));
  EXPECT_THAT(Assigned(Job(3, true), kNodes), ElementsAre("d", "d", "d")) << "one worker shares with itself";
  EXPECT_THAT(Assigned(Job(5, true), kNodes), ElementsAre());
  EXPECT_EQ(Assigned(Job(5, false), kNodes).size(), 5) << "a job without shared files runs anywhere";
  JobSpec predict = Job(5, false);
  predict.set_kind(PREDICT);
  EXPECT_THAT(Assigned(predict, kNodes), ElementsAre());
}

TEST(AssignTest, AJobStaysWhereItsCheckpointsAre) {
  EXPECT_THAT(Assigned(Job(2, true), kNodes, {"c", "c"}, "one"), ElementsAre("c", "c"));
  EXPECT_THAT(Assigned(Job(2, true), kNodes, {"gone", "gone"}, "one"), Each(AnyOf("a", "c")));
  EXPECT_EQ(Assigned(Job(2, true), kNodes, {"gone", "gone"}, "one").size(), 2);
  EXPECT_THAT(Assigned(Job(2, true), {{"b", 2, "two"}}, {"c", "c"}, "one"), ElementsAre());
  EXPECT_THAT(Assigned(Job(2, true), kNodes, {}, OutputRootOf(kNodes[3]).ToString()), ElementsAre("d", "d"));
  EXPECT_THAT(Assigned(Job(2, true), {{"d", 2, "one"}}, {}, OutputRootOf(kNodes[3]).ToString()), ElementsAre());
}

TEST(AssignTest, AJobWithoutSharedFilesGoesWhereItsWeightsAre) {
  EXPECT_THAT(Assigned(Job(3, false), kNodes, {}, "one"), ElementsAre("a", "a", "c"));
  EXPECT_THAT(Assigned(Job(2, false), kNodes, {}, "two"), ElementsAre("b", "b"));
  EXPECT_THAT(Assigned(Job(3, false), kNodes, {}, "two"), ElementsAre()) << "though others have slots";
  EXPECT_THAT(Assigned(Job(1, false), kNodes, {}, "three"), ElementsAre());
}

TEST(AssignTest, NoMoreRanksOnANodeThanTheJobAllows) {
  JobSpec spec = Job(3, false);
  spec.mutable_resources()->set_max_ranks_per_node(2);
  EXPECT_THAT(Assigned(spec, {{"a", 8}, {"b", 8}}), ElementsAre("a", "a", "b"));
  EXPECT_THAT(Assigned(spec, {{"a", 8}}), ElementsAre());
}

TEST(AssignTest, RanksThatNeedGpusGoWhereGpusAreFree) {
  const std::vector<FreeSlots> free = {{.worker = "a", .slots = 4, .gpus = 1},
                                       {.worker = "b", .slots = 1, .gpus = 8},
                                       {.worker = "c", .slots = 8},
                                       {.worker = "d", .slots = 2, .gpus = 2}};
  JobSpec spec = Job(4, false);
  EXPECT_THAT(*Assign(&AssignCompactly, spec, free, {}, ""), Each("a")) << "without, only slots count";
  spec.mutable_resources()->set_gpus(1);
  EXPECT_THAT(*Assign(&AssignCompactly, spec, free, {}, ""), ElementsAre("d", "d", "a", "b"));
  EXPECT_THAT(*Assign(&AssignCompactly, spec, free, {"a", "a", "c", "d"}, ""), ElementsAre("a", "b", "d", "d"))
      << "a rank stays where there is a GPU for it";
  spec.set_ranks(5);
  EXPECT_EQ(Assign(&AssignCompactly, spec, free, {}, "").status().code(), absl::StatusCode::kResourceExhausted);
  spec.set_ranks(2);
  spec.mutable_resources()->set_max_ranks_per_node(1);
  EXPECT_THAT(*Assign(&AssignCompactly, spec, free, {}, ""), ElementsAre("a", "b"));
  EXPECT_EQ(RoomFor({.worker = "lost", .slots = -1, .gpus = -1}, spec.resources()), 0);
}

TEST(AssignTest, AWorkerWithoutAFreeGpuIsNoCandidate) {
  const AssignmentPolicy policy = [&](const auto& groups, const AssignmentNeeds& job) -> absl::StatusOr<Assignment> {
    EXPECT_EQ(groups.size(), 1);
    EXPECT_EQ(groups[0].size(), 1);
    EXPECT_EQ(groups[0][0].worker, "b");
    EXPECT_EQ(groups[0][0].free_slots, 4);
    EXPECT_EQ(groups[0][0].most_ranks, 1);
    return Assignment{"b"};
  };
  JobSpec spec = Job(1, false);
  spec.mutable_resources()->set_gpus(1);
  EXPECT_EQ(
      Assign(policy, spec, {{.worker = "a", .slots = 4}, {.worker = "b", .slots = 4, .gpus = 1}}, {}, "").status(),
      absl::OkStatus());
  EXPECT_EQ(Assign(policy, spec, {{.worker = "a", .slots = 4}}, {}, "").status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(AssignTest, RefusesAPolicysChoiceThatBreaksARule) {
  auto refusal = [](const JobSpec& spec, const Assignment& choice) {
    const AssignmentPolicy policy = [&](const auto& groups, const AssignmentNeeds& job) { return choice; };
    const absl::Status status = Assign(policy, spec, kNodes, {}, "").status();
    EXPECT_EQ(status.code(), status.ok() ? absl::StatusCode::kOk : absl::StatusCode::kInternal);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(Job(2, false), {"a", "b"}), "");
  EXPECT_THAT(refusal(Job(2, false), {"a"}), HasSubstr("it assigned 1 ranks of 2"));
  EXPECT_THAT(refusal(Job(3, false), {"a", "a", "a"}), HasSubstr("more ranks to a than it may run"));
  EXPECT_THAT(refusal(Job(1, false), {"elsewhere"}), HasSubstr("rank 0 to 'elsewhere', which may not run the job"));
  EXPECT_THAT(refusal(Job(2, true), {"a", "b"}), HasSubstr("rank 1 to 'b', which may not run the job together with a"));
}

TEST(AssignTest, APolicyThatThrowsHasNoChoice) {
  auto thrown = [](auto what) {
    const AssignmentPolicy policy = [&](const auto& groups, const AssignmentNeeds& job) -> absl::StatusOr<Assignment> {
      throw what;
    };
    return Assign(policy, Job(1, false), kNodes, {}, "").status();
  };
  EXPECT_EQ(thrown(std::out_of_range("no such node")),
            absl::InternalError("the assignment policy threw \"no such node\""));
  EXPECT_EQ(thrown(7), absl::InternalError("the assignment policy threw something that is no std::exception"));
}

}  // namespace
}  // namespace adjoin
