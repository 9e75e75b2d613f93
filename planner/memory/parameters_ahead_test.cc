// Parameters that are moved take memory while the layer before computes, and their gradients while its backward pass
// runs: compared with counts by hand.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

// On each of the two ranks: one sample of 4 numbers (16 bytes) and its target of 50 (200). Values of 100 numbers (400),
// 100 (400) and 50 (200). Weights, whole: 100x4 (1,600 bytes), 100x100 (40,000) and 50x100 (20,000); half of each rests
// on a rank.
constexpr char kJob[] = R"(name: "chain" kind: TRAIN ranks: 2
layout { name: "rows" partition: [2, 1] }
layer { name: "a" input: "x" x: "rows" home: SHARDED linear { out_features: 100 bias: false } }
layer { name: "b" home: SHARDED linear { out_features: 100 bias: false } }
layer { name: "c" home: SHARDED linear { out_features: 50 bias: false } }
loss { kind: "mse" input: "c" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [4] }
  field { name: "t" idx { path: "t" } shape: [50] } }
train { dataset: "data" batch: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
)";

Plan PlanOf(const std::string& text) {
  const auto parsed = ParseSpec(text, "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return Plan();
  auto plan = Planner::Build(parsed->spec, {{"data", 2}}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

// While b computes there are its input and output (400 each), its weight, that of c, which comes after it, and the
// target. While a computes, and while c does, there is less.
TEST(ParametersAheadTest, TheNextLayersWeightsAreThereWhileALayerComputes) {
  const Plan plan = PlanOf(kJob);
  ASSERT_GT(plan.program_size(), 0);
  ProgramPlan forward = plan.program(0);
  forward.set_training(false);
  forward.clear_loss();
  for (int rank = 0; rank < 2; ++rank) {
    const auto memory = PredictStepMemory(plan, forward, rank);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->bytes, 200 + 400 + 40000 + 20000 + 400) << "rank " << rank;
    EXPECT_EQ(memory->during, "forward pass of \"b\"");
  }
}

// When b's gradients are computed the graph has x, and b's weight and input; a's weight is kept by nobody, since x has
// no gradient. Of c, whose backward pass is over, there are the gradient that travels and the half that it becomes
// here; then b's gradients of its output, its input and its weight.
TEST(ParametersAheadTest, TheLastLayersGradientsTravelWhileTheBackwardPassGoesOn) {
  const Plan plan = PlanOf(kJob);
  ASSERT_GT(plan.program_size(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    const auto memory = PredictStepMemory(plan, plan.program(0), rank);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->bytes, 16 + (400 + 40000) + (20000 + 10000) + (400 + 400 + 40000)) << "rank " << rank;
    EXPECT_EQ(memory->during, "backward pass of \"b\"");
  }
}

// Rank 0 is the second stage of a pipeline, and keeps one micro-batch of one sample; the weights of its layers, 40,000
// bytes of b and 16,000 of c, come from rank 1, the first stage. While b's backward pass runs it has b's input and
// weight, and the gradients of its output, its input and its weight, and nothing of c: what goes from one stage to
// another is not started ahead, but may twice be on its way back beside all of this.
TEST(ParametersAheadTest, WeightsOfAnotherStageAreThereWhenTheyAreUsed) {
  const Plan plan = PlanOf(R"(name: "stages" kind: TRAIN ranks: 2
layout { name: "first" partition: [1, 1] rank: 1 }
layout { name: "second" partition: [1, 1] rank: 0 }
layer { name: "a" input: "x" x: "first" linear { out_features: 100 bias: false } }
layer { name: "to" y: "second" repartition {} }
layer { name: "b" home: OWNER owner: 1 linear { out_features: 100 bias: false } }
layer { name: "c" home: OWNER owner: 1 linear { out_features: 40 bias: false } }
loss { kind: "mse" input: "c" target: "t" }
dataset { name: "data" field { name: "x" idx { path: "x" } shape: [4] }
  field { name: "t" idx { path: "t" } shape: [40] } }
train { dataset: "data" batch: 2 microbatches: 2 microbatches_in_flight: 2 steps: 1 optimizer { sgd { lr: 0.1 } } }
)");
  ASSERT_GT(plan.program_size(), 0);
  const auto memory = PredictStepMemory(plan, plan.program(0), /*rank=*/0);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->bytes, 2 * (400 + 40000 + 16000) + (400 + 40000) + (400 + 400 + 40000));
  EXPECT_EQ(memory->during, "backward pass of \"b\"");
}

}  // namespace
}  // namespace adjoin
