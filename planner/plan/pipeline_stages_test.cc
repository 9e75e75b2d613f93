// Which ranks of a plan are at different micro-batches, what goes from one set of them to another, and what `adjoin
// plan` says of it.
#include "planner/plan/pipeline_stages.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/plan_fixtures.h"
#include "planner/plan/plan_report.h"
#include "proto/plan.pb.h"
#include "proto/plan_report.pb.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two equal layers on FIRST and SECOND, with MORE behind them.
constexpr char kTwo[] = R"(name: "two" kind: TRAIN ranks: RANKS seed: 1
layout { name: "first" FIRST }
layout { name: "second" SECOND }
layer { name: "a" input: "x" x: "first" linear { out_features: 8 } }
layer { name: "to" y: "second" AGAIN repartition {} }
layer { name: "b" linear { out_features: 8 } }
MORE
loss { kind: "mse" input: "LAST" target: "y" }
dataset { name: "set"
  field { name: "x" synthetic { kind: "normal" samples: 32 } shape: [8] }
  field { name: "y" synthetic { kind: "normal" samples: 32 } shape: [8] } }
train { dataset: "set" batch: 16 microbatches: 4 microbatches_in_flight: 4 steps: 3 optimizer { sgd { lr: 0.1 } } }
)";

std::string Two(int ranks, const std::string& first, const std::string& second, const std::string& again = "",
                const std::string& more = "", const std::string& last = "b") {
  return absl::StrReplaceAll(kTwo, {{"RANKS", absl::StrCat(ranks)},
                                    {"FIRST", first},
                                    {"SECOND", second},
                                    {"AGAIN", again},
                                    {"MORE", more},
                                    {"LAST", last}});
}

constexpr char kOn0[] = "partition: [1, 1] rank: 0";
constexpr char kOn1[] = "partition: [1, 1] rank: 1";

TEST(PipelineStagesTest, RanksOfOneMeshAreOneStage) {
  const auto plan = PlanText(Two(4, "partition: [2, 1] rank: [2, 3]", "partition: [2, 1] rank: [0, 1]"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto stages = PipelineStages::Of(*plan);
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_THAT(stages->ranks(), ElementsAre(ElementsAre(2, 3), ElementsAre(0, 1)));
  EXPECT_THAT(stages->in_flight(), ElementsAre(2, 1));
  EXPECT_EQ(stages->in_flight(3), 2);
  EXPECT_EQ(stages->in_flight(0), 1);
  EXPECT_THAT(stages->next(), ElementsAre(ElementsAre(1), ElementsAre()));
  int between = 0;
  for (const OperatorPlan& op : plan->program(0).op()) between += stages->Between(op) ? 1 : 0;
  EXPECT_EQ(between, 1);
}

// What a rank sends to another stage is there until it is sent, and the rank may be two micro-batches further then.
TEST(PipelineStagesTest, MemoryCountsWhatIsSentAhead) {
  const std::string text = Two(2, kOn0, kOn1);
  const auto ahead = PlanText(text);
  const auto in_turn =
      PlanText(absl::StrReplaceAll(text, {{"microbatches_in_flight: 4", "microbatches_in_flight: 1"}}));
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  ASSERT_TRUE(in_turn.ok()) << in_turn.status();
  // The second stage keeps one micro-batch at a time in both.
  const auto more = PredictStepMemory(*ahead, ahead->program(0), 1);
  const auto less = PredictStepMemory(*in_turn, in_turn->program(0), 1);
  ASSERT_TRUE(more.ok()) << more.status();
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_EQ(more->bytes - less->bytes, 2 * 4 * 8 * 4);  // gradients of 4 samples with 8 floats
}

TEST(PipelineStagesTest, OneInFlightIsOneStage) {
  const auto plan =
      PlanText(absl::StrReplaceAll(Two(2, kOn0, kOn1), {{"microbatches_in_flight: 4", "microbatches_in_flight: 1"}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto stages = PipelineStages::Of(*plan);
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_EQ(stages->size(), 1);
  EXPECT_EQ(MakePlanReport(*plan).pipeline().stage_size(), 0);
}

TEST(PipelineStagesTest, JobsWithoutStagesAreRefused) {
  const char* says = "no rank has layers that come before all those of other ranks";
  EXPECT_THAT(ErrorOf(Two(2, kOn0, kOn0)), HasSubstr(says));
  // What is computed again moves in the backward pass, too.
  EXPECT_THAT(ErrorOf(Two(2, kOn0, kOn1, "recompute: true")), HasSubstr(says));
  // From rank 0 to rank 1 and back.
  EXPECT_THAT(ErrorOf(Two(2, kOn0, kOn1, "", "layer { name: \"back\" y: \"first\" repartition {} }", "back")),
              HasSubstr(says));
}

// A job whose value goes through these ranks one after the other, a layer on each.
std::string Way(int ranks, const std::vector<int>& way) {
  std::string layouts, layers;
  for (int rank = 0; rank < ranks; ++rank) {
    absl::StrAppend(&layouts, "layout { name: \"on", rank, "\" partition: [1, 1] rank: ", rank, " }\n");
  }
  for (size_t i = 0; i < way.size(); ++i) {
    absl::StrAppend(&layers, "layer { name: \"l", i, "\" ", i == 0 ? "input: \"x\" x: \"on0\" " : "",
                    "linear { out_features: 8 } }\n");
    if (i + 1 < way.size()) {
      absl::StrAppend(&layers, "layer { name: \"to", i, "\" y: \"on", way[i + 1], "\" repartition {} }\n");
    }
  }
  std::string text = Two(ranks, kOn0, kOn1, "", "", absl::StrCat("l", way.size() - 1));
  const size_t first = text.find("layout {"), end = text.find("loss {");
  return text.replace(first, end - first, layouts + layers);
}

// Each set of ranks that a value comes back to is one stage, and others stay apart.
TEST(PipelineStagesTest, RanksInACircleAreOneStage) {
  const auto plan = PlanText(Way(6, {0, 1, 2, 1, 3, 4, 5, 3}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto stages = PipelineStages::Of(*plan);
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_THAT(stages->ranks(), ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(stages->next(), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre()));
}

// The first of four stages keeps as much of each micro-batch as its layer's input takes: 4 samples of 8 numbers. Where
// there are several, two more may be on their way to the next stage.
TEST(PipelineStagesTest, EachMicrobatchInFlightTakesMemory) {
  std::vector<int64_t> bytes;
  for (int in_flight = 1; in_flight <= 4; ++in_flight) {
    const auto plan = PlanText(absl::StrReplaceAll(
        Way(4, {0, 1, 2, 3}), {{"microbatches_in_flight: 4", absl::StrCat("microbatches_in_flight: ", in_flight)}}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto memory = PredictMemory(*plan, 0);
    ASSERT_TRUE(memory.ok()) << memory.status();
    bytes.push_back(memory->bytes);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bytes[i + 1] - bytes[i], (i == 0 ? 3 : 1) * 4 * 8 * 4) << i;
}

// Two stages of equal work wait for one of the five passes' times.
TEST(PipelineStagesTest, TheReportHasTheStagesAndTheirIdleTime) {
  const auto plan = PlanText(Two(2, kOn0, kOn1));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PlanReport report = MakePlanReport(*plan);
  ASSERT_EQ(report.pipeline().stage_size(), 2);
  EXPECT_EQ(report.pipeline().stage(0).in_flight(), 2u);
  EXPECT_EQ(report.pipeline().stage(1).ranks(0).first(), 1u);
  EXPECT_EQ(report.pipeline().stage(0).layer(0), "a");
  EXPECT_NEAR(report.pipeline().idle_share(), 0.2, 1e-9);
}

}  // namespace
}  // namespace adjoin
