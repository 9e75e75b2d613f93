#include "planner/plan/extent_plan.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/memory/step_memory.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = R"job(name: "v" kind: PREDICT ranks: 2 seed: 1
layout { name: "grid" partition: [1, 1, 2, 1, 1] }
layer { name: "down" input: "image" x: "grid" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "up" upsample { mode: "nearest" scale: 2 } }
layer { name: "skip" input: ["down", "up"] concat { arg: 1 } }
dataset { name: "set" field { name: "image" npy { path: ["a", "b"] } shape: [1, -1, -1, 10] } }
predict { dataset: "set" input: "skip" format: "npy" }
weights { init_from: "w" }
output_dir: "v")job";

JobSpec SpecOf(const std::vector<std::pair<absl::string_view, absl::string_view>>& changes = {}) {
  const auto parsed = ParseSpec(absl::StrReplaceAll(kJob, changes), "job");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->spec : JobSpec();
}

absl::StatusOr<Plan> PlanOf(const JobSpec& spec) { return Planner::Build(spec, {}, BuiltinLayerRules()); }

std::string Refusal(const JobSpec& spec) { return std::string(PlanOf(spec).status().message()); }

// Operators have other ids, and there are no collections of parameters.
ProgramPlan WithoutIds(ProgramPlan program) {
  for (OperatorPlan& op : *program.mutable_op()) op.clear_id();
  for (ValuePlan& value : *program.mutable_value()) value.mutable_read()->clear_id();
  return program;
}

TEST(ExtentPlanTest, AReportIsOfTheExtentsThatAreGiven) {
  const auto plan = PlanOf(SpecOf());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto large = PlanWithExtents(*plan, "set", {64, 200, 10}, BuiltinLayerRules());
  ASSERT_TRUE(large.ok()) << large.status();
  JobSpec written = SpecOf();
  written.mutable_dataset(0)->mutable_field(0)->set_shape(1, 64);
  written.mutable_dataset(0)->mutable_field(0)->set_shape(2, 200);
  auto expected = PlanOf(written);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ReadHalosFromFiles(&*expected);
  const auto memory = PredictLargestMemory(*large), of_written = PredictLargestMemory(*expected);
  ASSERT_TRUE(memory.ok() && of_written.ok());
  EXPECT_EQ(memory->bytes, of_written->bytes);
  EXPECT_EQ(memory->of_part, of_written->of_part);
  EXPECT_EQ(large->spec().DebugString(), written.DebugString());
  ASSERT_EQ(large->program_size(), 1);
  for (const LayerPlan& layer : large->program(0).layer()) {
    for (const ParameterUse& use : layer.parameter()) {
      EXPECT_EQ(large->parameter(use.index()).name(), layer.name() + "." + use.role());
    }
  }
  EXPECT_FALSE(PlanWithExtents(*plan, "set", {63, 200, 10}, BuiltinLayerRules()).ok());
  const auto other = PlanWithExtents(*plan, "another", {63, 200, 10}, BuiltinLayerRules());
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->DebugString(), plan->DebugString());
}

TEST(ExtentPlanTest, IsThePlanOfAJobWithTheExtentsWrittenOut) {
  const JobSpec spec = SpecOf();
  const auto plan = PlanOf(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{4, 6, 10}, {34, 2, 10}}) {
    const auto own = PlanForExtents(*plan, "predict", extents, BuiltinLayerRules());
    ASSERT_TRUE(own.ok()) << own.status();
    JobSpec written = spec;
    written.mutable_dataset(0)->mutable_field(0)->set_shape(1, extents[0]);
    written.mutable_dataset(0)->mutable_field(0)->set_shape(2, extents[1]);
    auto expected = PlanOf(written);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ReadHalosFromFiles(&*expected);
    ASSERT_EQ(own->program_size(), 1);
    EXPECT_EQ(WithoutIds(own->program(0)).DebugString(), WithoutIds(expected->program(0)).DebugString());
    ASSERT_EQ(own->parameter_size(), plan->parameter_size());
  }
}

TEST(ExtentPlanTest, TheJobsPlanHasItForSomeExtents) {
  const auto plan = PlanOf(SpecOf());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->program_size(), 1);
  EXPECT_EQ(plan->program(0).batch(), 1);
  EXPECT_THAT(Planner::Explain(*plan),
              HasSubstr("program \"predict\" is shown for samples of 1x128x128x10 of \"image\"; the volumes of data set"
                        " \"set\" have extents of their own"));
  EXPECT_THAT(Refusal(SpecOf({{"-1, -1, 10", "-1, -1, 11"}})),
              AllOf(HasSubstr("\"skip\""), HasSubstr("in place of -1")))
      << "a dim that fits no other extents either";
  EXPECT_THAT(Refusal(SpecOf({{" x: \"grid\"", ""}})),
              AllOf(HasSubstr("x is missing"), Not(HasSubstr("in place of -1"))))
      << "what is wrong with any extents";
}

TEST(ExtentPlanTest, ExtentsThatTheNetworkDoesNotTake) {
  const JobSpec spec = SpecOf();
  const auto check = ExtentCheck::Create(spec, BuiltinLayerRules());
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_TRUE(ExtentCheck::Concerns(spec, spec.dataset(0)));
  EXPECT_TRUE((*check)->Check("set", "'a'", {4, 6, 10}).ok());
  const absl::Status odd = (*check)->Check("set", "'b'", {5, 6, 10});
  EXPECT_THAT(std::string(odd.message()),
              AllOf(HasSubstr("'b' has the extents 5x6x10, which the network does not take: layer 3 \"skip\": ")));
}

// The weights of a fully connected layer are as many as there are cells.
TEST(ExtentPlanTest, ParametersThatDependOnTheExtents) {
  const JobSpec spec =
      SpecOf({{"concat { arg: 1 } }",
               "concat { arg: 1 } }\nlayer { name: \"flat\" y: \"one\" flatten {} }\n"
               "layer { name: \"fc\" linear { out_features: 3 } }"},
              {"layout { name: \"grid\"", "layout { name: \"one\" partition: [1, 1] }\nlayout { name: \"grid\""},
              {"input: \"skip\"", "input: \"fc\""}});
  const auto check = ExtentCheck::Create(spec, BuiltinLayerRules());
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(std::string((*check)->Check("set", "'a'", {4, 6, 10}).message()),
              AllOf(HasSubstr("'a' has the extents 4x6x10"), HasSubstr("parameter \"fc.weight\" would be 3x"),
                    HasSubstr("takes volumes of one shape only")));
}

TEST(ExtentPlanTest, WhatDoesNotGoWithDifferentExtents) {
  EXPECT_THAT(Refusal(SpecOf({{"format: \"npy\"", "format: \"npy\" batch: 2"}})),
              AllOf(HasSubstr("predict.batch is 2"), HasSubstr("taken one at a time")));
  EXPECT_THAT(
      Refusal(SpecOf({{"partition: [1, 1, 2, 1, 1]", "partition: [1, 1, 2, 1, 1] cut { dim: 2 size: [3, 5] }"}})),
      HasSubstr("A layout for volumes of different extents has no explicit cut of them"));
}

}  // namespace
}  // namespace adjoin
