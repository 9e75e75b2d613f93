// Jobs that give their ranks weights: dims that layouts do not size are cut in their proportion, and nothing else
// changes.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/rules/layout_proto.h"
#include "planner/plan/plan_fixtures.h"
#include "planner/plan/planner.h"
#include "primitives/geometry/layout.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// How a layer's output is cut in `dim`, in the program for training.
std::vector<int64_t> Cut(const Plan& plan, const std::string& layer, int dim) {
  for (const ValuePlan& value : plan.program(0).value()) {
    if (value.name() == layer) return LayoutFromProto(value.layout()).value().Boundaries(dim);
  }
  ADD_FAILURE() << "no layer " << layer;
  return {};
}

std::string WithWeights(const std::string& weights, const std::string& text = kLeNet) {
  return absl::StrReplaceAll(text, {{"kind: TRAIN", absl::StrCat("kind: TRAIN rank_weight: ", weights)}});
}

TEST(RankWeightsPlanTest, EqualWeightsGiveThePlanWithoutWeights) {
  auto plan = PlanText(kLeNet, MnistSizes()), weighted = PlanText(WithWeights("[3, 3, 3, 3]"), MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(weighted.ok()) << weighted.status();
  weighted->mutable_spec()->clear_rank_weight();
  EXPECT_EQ(Planner::Hash(*plan), Planner::Hash(*weighted));
}

TEST(RankWeightsPlanTest, EveryLayerIsCutInProportion) {
  // Rows 1 + 1 to 3 + 3, columns alike.
  const auto plan = PlanText(WithWeights("[1, 1, 3, 3]"), MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(Cut(*plan, "image", 2), ElementsAre(0, 7, 28));
  EXPECT_THAT(Cut(*plan, "image", 3), ElementsAre(0, 14, 28));
  EXPECT_THAT(Cut(*plan, "conv1", 2), ElementsAre(0, 7, 28));
  EXPECT_THAT(Cut(*plan, "pool1", 2), ElementsAre(0, 4, 14)) << "3.5 and 10.5: the first part comes first";
  EXPECT_THAT(Cut(*plan, "conv2", 2), ElementsAre(0, 3, 10)) << "2.5 and 7.5";
  EXPECT_THAT(Cut(*plan, "relu2", 2), ElementsAre(0, 3, 10));
  EXPECT_THAT(Cut(*plan, "pool2", 2), ElementsAre(0, 1, 5));
  EXPECT_THAT(Cut(*plan, "fc1", 1), ElementsAre(0, 30, 120)) << "on ranks 0 and 2";
  EXPECT_THAT(Cut(*plan, "to_chan", 1), ElementsAre(0, 8, 16)) << "on ranks 0 and 1, which are alike";
}

TEST(RankWeightsPlanTest, SizesThatAreGivenStay) {
  const auto plan = PlanText(WithWeights("[1, 1, 3, 3]", LeNetWith("partition: [1,1,2,2]",
                                                                   "partition: [1,1,2,2] cut { dim: 2 size: [20, 8] }"
                                                                   " cut { dim: 3 size: [9, 19] }")),
                             MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(Cut(*plan, "image", 2), ElementsAre(0, 20, 28));
}

// Each batch for itself, the shorter last one as well, and parameters live where they live for all of them.
TEST(RankWeightsPlanTest, BatchesOfAnySizeAreCutInProportion) {
  const std::string layers = R"(layout { name: "b" partition: [4, 1] }
layer { name: "a" input: "image" x: "b" linear { out_features: 5 } }
layer { name: "c" home: SHARDED linear { out_features: 3 } })";
  const auto plan = PlanText(WithWeights("[1, 2, 3, 2]", JobText(4, layers, "[4]", "c")), {{"train", 27}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(Cut(*plan, "c", 0), ElementsAre(0, 1, 3, 6, 8));
  ASSERT_EQ(plan->program_size(), 2);
  const auto tail = LayoutFromProto(plan->program(1).value(0).layout());
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_THAT(tail->Boundaries(0), ElementsAre(0, 0, 1, 2, 3)) << "3 samples for 4 ranks: the slowest has none";
}

TEST(RankWeightsPlanTest, WeightsThatAreNoneAreRefusedWithTheirPlace) {
  EXPECT_THAT(ErrorOf(WithWeights("[1, 2, 3]")), HasSubstr("rank_weight has 3 numbers for 4 ranks"));
  EXPECT_THAT(ErrorOf(WithWeights("[1, 2, 0, 1]")),
              HasSubstr("rank_weight[2] is 0; a weight is a finite number above"));
  EXPECT_THAT(ErrorOf(WithWeights("[1, 2, -1, 1]")), HasSubstr("rank_weight[2] is -1"));
  EXPECT_THAT(ErrorOf(WithWeights("[1, nan, 1, 1]")), HasSubstr("rank_weight[1] is nan"));
  EXPECT_THAT(ErrorOf(WithWeights("[1, inf, 1, 1]")), HasSubstr("rank_weight[1] is inf"));
  const std::string ratio = ErrorOf(WithWeights("[1, 1, 1, 5000]"));
  EXPECT_THAT(ratio, HasSubstr("rank_weight[3] is 5000, more than 1000 times [0], which is 1"));
  EXPECT_THAT(ratio, HasSubstr("job.textproto:1")) << "with its place";
}

}  // namespace
}  // namespace adjoin
