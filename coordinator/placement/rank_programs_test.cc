#include "coordinator/placement/rank_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/placement/assignment.h"
#include "proto/unread_program.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<FreeSlots> kNodes = {{.worker = "a", .slots = 2, .output_id = "one", .program = "new"},
                                       {.worker = "b", .slots = 2, .output_id = "one", .program = "old"},
                                       {.worker = "c", .slots = 1, .output_id = "two", .program = "new"},
                                       {.worker = "d", .slots = 1, .output_id = "one"}};

JobSpec Job(uint32_t ranks, bool checkpoints = false) {
  JobSpec spec;
  spec.set_kind(TRAIN);
  spec.set_ranks(ranks);
  if (checkpoints) spec.mutable_checkpoint()->set_dir("c");
  return spec;
}

Assignment Assigned(const JobSpec& spec, const Assignment& before = {}, const std::string& home = "") {
  const absl::StatusOr<Assignment> workers = Assign(&AssignCompactly, spec, kNodes, before, home);
  return workers.ok() ? *workers : Assignment();
}

TEST(RankProgramsTest, WorkersAreGroupedByProgram) {
  std::vector<std::string> names;
  for (const std::vector<FreeSlots>& group : GroupsByProgram(kNodes)) {
    names.emplace_back();
    for (const FreeSlots& worker : group) names.back() += std::string(worker.worker);
  }
  EXPECT_THAT(names, ElementsAre("d", "ac", "b"));
  EXPECT_FALSE(HaveOneProgram(kNodes));
  EXPECT_TRUE(HaveOneProgram({kNodes[0], kNodes[2]}));
  EXPECT_TRUE(HaveOneProgram({kNodes[3]}));
  EXPECT_TRUE(HaveOneProgram({}));
  const std::vector<FreeSlots> unread = {{.worker = "e", .slots = 1, .program = kUnreadProgram},
                                         {.worker = "f", .slots = 1, .program = kUnreadProgram}};
  EXPECT_FALSE(HaveOneProgram(unread)) << "they may have two";
  EXPECT_EQ(GroupsByProgram(unread).size(), 2u);
}

TEST(RankProgramsTest, RanksOfAJobRunOneProgram) {
  EXPECT_THAT(Assigned(Job(3)), ElementsAre("a", "a", "c"));
  EXPECT_THAT(Assigned(Job(4)), IsEmpty()) << "six slots are free";
  EXPECT_THAT(Assigned(Job(2)), ElementsAre("b", "b"));
  EXPECT_THAT(Assigned(Job(2), {"b", "a"}), ElementsAre("b", "b")) << "the rank on a has to move";
  EXPECT_THAT(Assigned(Job(1)), ElementsAre("d"));
}

TEST(RankProgramsTest, RanksThatShareFilesRunOneProgramToo) {
  EXPECT_THAT(Assigned(Job(3, /*checkpoints=*/true)), IsEmpty()) << "a and c have two output roots";
  EXPECT_THAT(Assigned(Job(2, /*checkpoints=*/true), {"a", "a"}), ElementsAre("a", "a"));
  EXPECT_THAT(Assigned(Job(1), {}, "two"), ElementsAre("c"));
  EXPECT_THAT(Assigned(Job(2), {}, "two"), IsEmpty());
}

TEST(RankProgramsTest, SaysWhyAJobWaits) {
  EXPECT_EQ(
      ProgramsReason(Job(4), kNodes),
      "all its ranks run one adjoin-rank program, and no nodes that have the same one have as many slots: "
      "d (1 slot); a (2 slots) and c (1 slot); b (2 slots) (each semicolon: another program); it starts when more of "
      "them have the same release");
  EXPECT_EQ(ProgramsReason(Job(3), kNodes), "");
  EXPECT_EQ(ProgramsReason(Job(7), kNodes), "") << "there are too few slots in any case";
  EXPECT_EQ(ProgramsReason(Job(4), {}), "");
}

}  // namespace
}  // namespace adjoin
