#include "planner/time/step_time.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

// Every kernel takes a second forward and two backward, a movement a second for each message, and an update three.
CostModel Model(double call = 0) {
  RateTable rates;
  rates.set_launch_seconds(call);
  rates.set_machine("a test");
  rates.set_step_seconds(5);
  for (const char* kind : {"linear", "loss", "update", "activation", "copy", "sum"}) {
    KernelRate& rate = *rates.add_kernel();
    rate.set_kind(kind);
    rate.set_dtype("float32");
    rate.set_forward_seconds(std::string(kind) == "update" ? 3 : 1);
    rate.set_backward_seconds(2);
  }
  LaneRate& lane = *rates.add_lane();
  lane.set_lane("memory");
  lane.set_message_seconds(1);
  const auto model = CostModel::Create(rates);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

Plan PlanOf(int ranks, const std::string& partition, const std::string& more = "", const std::string& train = "") {
  const std::string spec =
      absl::StrCat("name: \"n\" kind: TRAIN ranks: ", ranks, " layout { name: \"g\" partition: ", partition,
                   " }\n"
                   "layer { name: \"a\" input: \"x\" x: \"g\" ",
                   more,
                   " linear { out_features: 4 bias: false } }\n"
                   "layer { name: \"r\" ",
                   more,
                   " activation { fn: \"relu\" } }\n"
                   "loss { kind: \"mse\" input: \"r\" target: \"t\" }\n"
                   "dataset { name: \"data\" field { name: \"x\" idx { path: \"x\" } shape: [8] }\n"
                   "  field { name: \"t\" idx { path: \"t\" } shape: [4] } }\n"
                   "train { dataset: \"data\" batch: 4 steps: 1 ",
                   train, " optimizer { sgd { lr: 0.1 } } }\n");
  const auto parsed = ParseSpec(spec, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto plan = Planner::Build(parsed->spec, {{"data", 4}}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

TEST(StepTimeTest, AddsUpOneRank) {
  const auto time = PredictStepTime(PlanOf(1, "[1, 1]"), Model());
  ASSERT_TRUE(time.ok()) << time.status();
  // Forward: the layer, its activation, the loss. Backward: half of the layer, since the data need no gradient, and the
  // others.
  EXPECT_NEAR(time->compute, 3 + 1 + 2 + 2, 1e-6);
  EXPECT_NEAR(time->update, 3 + 5, 1e-6);
  EXPECT_EQ(time->movement, 0);
  EXPECT_EQ(time->gradient, 0);
  EXPECT_EQ(time->wait, 0);
  ASSERT_EQ(time->layer.size(), 2u);
  EXPECT_EQ(time->layer[0].name, "a");
  EXPECT_NEAR(time->layer[0].forward, 1, 1e-6);
  EXPECT_NEAR(time->layer[0].backward, 1, 1e-6);
}

TEST(StepTimeTest, RanksOfLessWeightComputeLonger) {
  Plan plan = PlanOf(2, "[2, 1]");
  const auto even = PredictStepTime(plan, Model());
  plan.mutable_spec()->add_rank_weight(3);
  plan.mutable_spec()->add_rank_weight(1.5);
  const auto uneven = PredictStepTime(plan, Model());
  ASSERT_TRUE(even.ok() && uneven.ok());
  EXPECT_EQ(uneven->rank, 1);
  EXPECT_NEAR(uneven->compute, 2 * even->compute, 1e-6);
  EXPECT_NEAR(uneven->update, even->update + 3 + 5, 1e-6) << "a movement takes no longer";
  // No weights of these ranks: all count as equally fast.
  plan.mutable_spec()->add_rank_weight(1);
  EXPECT_NEAR(PredictStepTime(plan, Model())->step(), even->step(), 1e-9);
}

TEST(StepTimeTest, GradientsOfReplicatedWeightsAreAdded) {
  const auto time = PredictStepTime(PlanOf(2, "[2, 1]"), Model());
  ASSERT_TRUE(time.ok()) << time.status();
  // A message each way.
  EXPECT_NEAR(time->gradient, 2, 1e-6);
}

TEST(StepTimeTest, MicrobatchesMultiplyThePasses) {
  const auto one = PredictStepTime(PlanOf(1, "[1, 1]"), Model());
  const auto two = PredictStepTime(PlanOf(1, "[1, 1]", "", "microbatches: 2"), Model());
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  EXPECT_NEAR(two->compute, 2 * one->compute, 1e-6);
  EXPECT_NEAR(two->update, one->update + 1, 1e-6) << "the second part's gradient is added to the first one's";
}

TEST(StepTimeTest, ClippingReadsAndWritesTheGradients) {
  const auto plain = PredictStepTime(PlanOf(1, "[1, 1]"), Model());
  const auto clipped = PredictStepTime(PlanOf(1, "[1, 1]", "", "clip_norm: 1"), Model());
  ASSERT_TRUE(plain.ok() && clipped.ok()) << plain.status() << clipped.status();
  EXPECT_NEAR(clipped->update, plain->update + 1, 1e-6);
  EXPECT_NEAR(clipped->compute, plain->compute, 1e-6);
}

TEST(StepTimeTest, EachMovementOfTheGraphIsACallInBothDirections) {
  const Plan plan = PlanOf(2, "[1, 2]");
  const auto without = PredictStepTime(plan, Model()), with = PredictStepTime(plan, Model(0.25));
  ASSERT_TRUE(without.ok() && with.ok());
  int differentiable = 0;
  for (const OperatorPlan& op : plan.program(0).op()) differentiable += op.differentiable() ? 1 : 0;
  ASSERT_GT(differentiable, 0);
  EXPECT_NEAR(with->movement, without->movement + 2 * 0.25 * differentiable, 1e-6);
  EXPECT_NEAR(with->compute, without->compute, 1e-6) << "kernels have been measured with their calls";
}

// Rank 0 runs all but "a", which rank 1 runs, and the weight of "b" comes from rank 1.
class WeightOfAnotherRankTest : public testing::Test {
 protected:
  StepTime TimeOf(const std::string& first, const std::string& second, const std::string& train) {
    const auto parsed =
        ParseSpec(absl::StrCat("name: \"n\" kind: TRAIN ranks: 2 layout { name: \"on0\" partition: [1, 1] rank: [0] }\n"
                               "layout { name: \"on1\" partition: [1, 1] rank: [1] }\n",
                               first, second,
                               "layer { name: \"r\" input: \"b\" activation { fn: \"relu\" } }\n"
                               "layer { name: \"c\" input: [\"a\", \"r\"] x: \"on0\" add {} }\n"
                               "loss { kind: \"mse\" input: \"c\" target: \"t\" }\n"
                               "dataset { name: \"data\" field { name: \"x\" idx { path: \"x\" } shape: [8] }\n"
                               "  field { name: \"z\" idx { path: \"z\" } shape: [8] }\n"
                               "  field { name: \"t\" idx { path: \"t\" } shape: [4] } }\n"
                               "train { dataset: \"data\" batch: 4 steps: 1 ",
                               train, " optimizer { sgd { lr: 0.1 } } }\n"),
                  "job");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const auto plan = Planner::Build(parsed->spec, {{"data", 4}}, BuiltinLayerRules());
    EXPECT_TRUE(plan.ok()) << plan.status();
    const auto time = PredictStepTime(*plan, Model());
    EXPECT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(time->rank, 0);
    return *time;
  }

  const std::string a_ = "layer { name: \"a\" input: \"x\" x: \"on1\" linear { out_features: 4 bias: false } }\n";
  const std::string b_ =
      "layer { name: \"b\" input: \"z\" x: \"on0\" home: OWNER owner: 1 linear { out_features: 4 bias: false } }\n";
};

// Between stages of a pipeline it does not travel ahead: behind "a", rank 0 waits in each of the two passes until rank
// 1 has computed that, which takes 1.
TEST_F(WeightOfAnotherRankTest, IsWaitedForBetweenStages) {
  const std::string train = "microbatches: 2 microbatches_in_flight: 2";
  const StepTime before = TimeOf(a_, b_, train), after = TimeOf(b_, a_, train);
  EXPECT_GT(before.wait, after.wait + 1.9);
}

// Where "a" stands before "b", the weight travels while rank 1 computes "a", as it does where "b" comes first: rank 0
// waits no longer for it.
TEST_F(WeightOfAnotherRankTest, IsNotWaitedForWhereItTravelsAhead) {
  const StepTime before = TimeOf(a_, b_, ""), after = TimeOf(b_, a_, "");
  EXPECT_NEAR(before.wait, after.wait, 1e-6);
  EXPECT_NEAR(before.step(), after.step(), 1e-6);
}

TEST(StepTimeTest, RanksThatShareACoreTakeTurns) {
  StepTimeOptions options;
  options.ranks_per_core = 2;
  const auto alone = PredictStepTime(PlanOf(2, "[2, 1]"), Model());
  const auto shared = PredictStepTime(PlanOf(2, "[2, 1]"), Model(), options);
  ASSERT_TRUE(alone.ok() && shared.ok());
  EXPECT_NEAR(shared->compute, 2 * alone->compute, 1e-6);
}

TEST(StepTimeTest, TheReportAddsUp) {
  const CostModel model = Model();
  const auto time = PredictStepTime(PlanOf(2, "[1, 2]"), model);
  ASSERT_TRUE(time.ok()) << time.status();
  const TimeReport report = ReportOf(*time, model);
  EXPECT_NEAR(report.step_seconds(),
              report.compute_seconds() + report.movement_seconds() + report.wait_seconds() + report.gradient_seconds() +
                  report.update_seconds(),
              1e-9);
  EXPECT_EQ(report.rates(), "a test");
  EXPECT_EQ(report.layer_size(), 2);
}

TEST(StepTimeTest, APlanThatTrainsNothingHasNone) {
  EXPECT_TRUE(absl::IsNotFound(PredictStepTime(Plan(), Model()).status()));
}

}  // namespace
}  // namespace adjoin
