#include "coordinator/placement/shared_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

JobSpec Job(uint32_t ranks, bool checkpoints) {
  JobSpec spec;
  spec.set_kind(TRAIN);
  spec.set_ranks(ranks);
  if (checkpoints) spec.mutable_checkpoint()->set_dir("c");
  return spec;
}

const std::vector<FreeSlots> kNodes = {{"a", 2, "one"}, {"b", 2, "two"}, {"c", 2, "one"}, {"d", 3, ""}, {"e", 3, ""}};

TEST(SharedOutputTest, RanksThatMeetInFilesStayOnOneFileSystem) {
  EXPECT_THAT(PlaceJob(Job(4, true), kNodes, {}, ""), Optional(ElementsAre("a", "a", "c", "c")));
  EXPECT_THAT(PlaceJob(Job(2, true), kNodes, {}, ""), Optional(ElementsAre("b", "b")));
  EXPECT_THAT(PlaceJob(Job(3, true), kNodes, {}, ""), Optional(ElementsAre("d", "d", "d"))) << "of which nothing is known";
  EXPECT_FALSE(PlaceJob(Job(5, true), kNodes, {}, "").has_value());
  EXPECT_TRUE(PlaceJob(Job(5, false), kNodes, {}, "").has_value()) << "others do not care";
  JobSpec predict = Job(5, false);
  predict.set_kind(PREDICT);
  EXPECT_FALSE(PlaceJob(predict, kNodes, {}, "").has_value());
}

TEST(SharedOutputTest, AJobStaysWhereItsCheckpointsAre) {
  EXPECT_THAT(PlaceJob(Job(2, true), kNodes, {"c", "c"}, "one"), Optional(ElementsAre("c", "c")));
  EXPECT_THAT(PlaceJob(Job(2, true), kNodes, {"gone", "gone"}, "one"), Optional(Each(testing::AnyOf("a", "c"))));
  EXPECT_FALSE(PlaceJob(Job(2, true), {{"b", 2, "two"}}, {"c", "c"}, "one").has_value());
  EXPECT_EQ(OutputGroup(kNodes[0]), "one");
  EXPECT_THAT(PlaceJob(Job(2, true), kNodes, {}, OutputGroup(kNodes[3])), Optional(ElementsAre("d", "d")));
  EXPECT_FALSE(PlaceJob(Job(2, true), {{"d", 2, "one"}}, {}, OutputGroup(kNodes[3])).has_value());
}

TEST(SharedOutputTest, SlotsAreSlotsWhereAllShare) {
  EXPECT_TRUE(ShareAll({{"a", 1, "one"}, {"b", 2, "one"}}));
  EXPECT_FALSE(ShareAll(kNodes));
  EXPECT_FALSE(ShareAll({{"a", 1, ""}, {"b", 2, ""}})) << "of which nothing is known";
}

TEST(SharedOutputTest, WhatCannotBeIsSaid) {
  EXPECT_TRUE(CheckSharedOutput(Job(4, true), kNodes).ok());
  EXPECT_TRUE(CheckSharedOutput(Job(99, true), kNodes).ok()) << "it waits for more nodes in any case";
  EXPECT_TRUE(CheckSharedOutput(Job(5, true), {}).ok());
  const absl::Status status = CheckSharedOutput(Job(5, true), {{"a", 3, "one"}, {"b", 3, "two"}, {"c", 1, "one"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("needs 5 slots"), HasSubstr("a (3 slots) and c (1 slot); b (3 slots)"),
                    HasSubstr("another file system"), HasSubstr("right would be a shared file system"),
                    Not(HasSubstr("unknown"))));
  const absl::Status unknown = CheckSharedOutput(Job(5, true), {{"a", 3, "one"}, {"d", 1, ""}, {"e", 2, ""}});
  EXPECT_THAT(std::string(unknown.message()),
              AllOf(HasSubstr(": a (3 slots) (each semicolon"), HasSubstr("try again when every --output-root answers"),
                    HasSubstr("; unknown, since its --output-root has not answered yet: d (1 slot) and e (2 slots); right")));
  EXPECT_THAT(std::string(CheckSharedOutput(Job(2, true), {{"d", 1, ""}, {"e", 1, ""}}).message()),
              AllOf(HasSubstr("unknown"), Not(HasSubstr("another file system"))));
}

}  // namespace
}  // namespace adjoin
