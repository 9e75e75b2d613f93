#include "coordinator/placement/shared_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/testing/test_seed.h"
#include "coordinator/placement/worker_group.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

JobSpec Job(uint32_t ranks, bool checkpoints) {
  JobSpec spec;
  spec.set_kind(TRAIN);
  spec.set_ranks(ranks);
  if (checkpoints) spec.mutable_checkpoint()->set_dir("c");
  return spec;
}

const std::vector<FreeSlots> kNodes = {{"a", 2, "one"}, {"b", 2, "two"}, {"c", 2, "one"}, {"d", 3, ""}, {"e", 3, ""}};

TEST(SharedOutputTest, WorkersAreGroupedByOutputRoot) {
  EXPECT_EQ(OutputRootOf(kNodes[0]).ToString(), "one");
  EXPECT_EQ(OutputRootOf(kNodes[3]).ToString(), "only d");
  std::vector<std::string> names;
  for (const std::vector<FreeSlots>& group : GroupsByOutputRoot(kNodes)) {
    names.emplace_back();
    for (const FreeSlots& worker : group) names.back() += std::string(worker.worker);
  }
  EXPECT_THAT(names, UnorderedElementsAre("ac", "b", "d", "e"));
}

TEST(SharedOutputTest, KnowsWhetherAllWorkersShareOneOutputRoot) {
  EXPECT_TRUE(ShareAll({{"a", 1, "one"}, {"b", 2, "one"}}));
  EXPECT_FALSE(ShareAll(kNodes));
  EXPECT_FALSE(ShareAll({{"a", 1, ""}, {"b", 2, ""}})) << "their output roots are not known";
}

TEST(SharedOutputTest, RefusesAJobThatFitsOnNoWorkersThatShare) {
  EXPECT_TRUE(CheckSharedOutput(Job(4, true), kNodes).ok());
  EXPECT_TRUE(CheckSharedOutput(Job(99, true), kNodes).ok()) << "the job waits for more nodes in any case";
  EXPECT_TRUE(CheckSharedOutput(Job(5, true), {}).ok());
  const absl::Status status = CheckSharedOutput(Job(5, true), {{"a", 3, "one"}, {"b", 3, "two"}, {"c", 1, "one"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("needs 5 slots"), HasSubstr("a (3 slots) and c (1 slot); b (3 slots)"),
                    HasSubstr("another file system"), HasSubstr("right would be a shared file system"),
                    Not(HasSubstr("unknown"))));
  const absl::Status unknown = CheckSharedOutput(Job(5, true), {{"a", 3, "one"}, {"d", 1, ""}, {"e", 2, ""}});
  EXPECT_THAT(
      std::string(unknown.message()),
      AllOf(HasSubstr(": a (3 slots) (each semicolon"), HasSubstr("try again when every --output-root answers"),
            HasSubstr("; unknown, since its --output-root has not answered yet: d (1 slot) and e (2 slots); right")));
  EXPECT_THAT(std::string(CheckSharedOutput(Job(2, true), {{"d", 1, ""}, {"e", 1, ""}}).message()),
              AllOf(HasSubstr("unknown"), Not(HasSubstr("another file system"))));
}

TEST(SharedOutputTest, RoomIsFoundExactlyWhereAGroupSuffices) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); };
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f"}, roots = {"", "one", "two", "three"};
  int found = 0, none = 0;
  for (int c = 0; c < 2000; ++c) {
    std::vector<FreeSlots> workers;
    for (const std::string& name : names) workers.push_back({name, draw(5), roots[static_cast<size_t>(draw(4))]});
    JobSpec spec = Job(static_cast<uint32_t>(1 + draw(12)), true);
    if (draw(3) == 0) spec.mutable_resources()->set_max_ranks_per_node(2);
    SharedRoom room(spec);
    const bool any = std::any_of(workers.begin(), workers.end(), [&](const FreeSlots& each) { return room.Add(each); });
    const auto groups = GroupsByOutputRoot(workers);
    const bool suffices =
        std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return Suffice(group, spec); });
    ASSERT_EQ(any, suffices) << "case " << c;
    ++(any ? found : none);
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace adjoin
