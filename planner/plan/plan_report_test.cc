#include "planner/plan/plan_report.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

Plan PlanOf(const std::string& text) {
  auto plan = Planner::Build(ParseSpec(text, "job.textproto")->spec, {{"train", 1000}}, BuiltinLayerRules());
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan();
}

const LayerReport& LayerNamed(const ProgramReport& program, const std::string& name) {
  for (const LayerReport& layer : program.layer()) {
    if (layer.name() == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  return LayerReport::default_instance();
}

// The numbers of LeNet-5 are counted by hand: layers of (in, out, kernel) with biases.
TEST(PlanReportTest, CountsParametersBytesAndFlops) {
  const PlanReport report = MakePlanReport(PlanOf(kLeNet));
  const int64_t parameters = (25 * 1 + 1) * 6 + (25 * 6 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10;
  EXPECT_EQ(report.parameters(), parameters);
  EXPECT_EQ(report.parameter_bytes(), 4 * parameters);
  EXPECT_EQ(report.untrained(), 0);
  EXPECT_EQ(report.ranks(), 4);
  EXPECT_EQ(report.parts(), 4);
  EXPECT_EQ(report.kind(), "TRAIN");
  const ProgramReport& train = report.program(0);
  EXPECT_EQ(train.name(), "train");
  EXPECT_EQ(train.batch(), 64);
  const LayerReport conv1 = LayerNamed(train, "conv1");
  EXPECT_EQ(conv1.kind(), "conv");
  EXPECT_THAT(conv1.output().layout().shape(), ElementsAre(64, 6, 28, 28));
  EXPECT_EQ(conv1.output().bytes(), 4 * 64 * 6 * 28 * 28);
  EXPECT_EQ(conv1.output().bytes_of_largest_part(), 4 * 64 * 6 * 14 * 14);
  EXPECT_EQ(conv1.input(0).name(), "image");
  EXPECT_THAT(conv1.input(0).layout().shape(), ElementsAre(64, 1, 28, 28));
  EXPECT_THAT(conv1.parameter(), ElementsAre("conv1.weight", "conv1.bias"));
  EXPECT_EQ(conv1.window(), "kernel 5 stride 1 padding 2,2");
  EXPECT_NEAR(conv1.flops_forward(), 2.0 * 64 * 6 * 28 * 28 * 25, 64 * 6 * 28 * 28);
}

TEST(PlanReportTest, ALayersBytesAreThoseOfItsMovements) {
  const Plan plan = PlanOf(kLeNet);
  const PlanReport report = MakePlanReport(plan);
  const ProgramReport& train = report.program(0);
  int64_t moved = 0;
  for (const LayerReport& layer : train.layer()) {
    int64_t forward = 0, backward = 0;
    for (const std::string& name : layer.movement()) {
      for (const MovementReport& movement : train.movement()) {
        if (movement.name() != name) continue;
        forward += movement.bytes_forward();
        backward += movement.bytes_backward();
      }
    }
    EXPECT_EQ(layer.bytes_forward(), forward) << layer.name();
    EXPECT_EQ(layer.bytes_backward(), backward) << layer.name();
    moved += forward + backward;
  }
  EXPECT_GT(LayerNamed(train, "conv2").bytes_forward(), 0) << "its halo";
  EXPECT_THAT(train.bytes_sent_by_all(), Gt(moved)) << "gradients are added up as well";
  EXPECT_EQ(std::accumulate(train.bytes_sent().begin(), train.bytes_sent().end(), int64_t{0}),
            train.bytes_sent_by_all());
}

TEST(PlanReportTest, AProgramThatDoesNotTrainSendsNothingBackward) {
  const PlanReport report = MakePlanReport(PlanOf(kLeNet));
  ASSERT_GT(report.program_size(), 1);
  for (const ProgramReport& program : report.program()) {
    int64_t backward = 0;
    for (const LayerReport& layer : program.layer()) backward += layer.bytes_backward();
    EXPECT_EQ(backward > 0, program.training()) << program.name();
  }
}

TEST(PlanReportTest, EachGradientIsInOneSum) {
  const PlanReport report = MakePlanReport(PlanOf(absl::StrReplaceAll(kLeNet, {{"home: OWNER", "home: REPLICATED"}})));
  std::vector<std::string> summed, expected;
  int64_t bytes = 0, alone = 0;
  for (const GradientSumReport& sum : report.gradient_sum()) {
    summed.insert(summed.end(), sum.parameter().begin(), sum.parameter().end());
    EXPECT_THAT(sum.algorithm(), HasSubstr("all-sum-reduce of ")) << sum.name();
    EXPECT_THAT(sum.name(), HasSubstr(absl::StrCat("sync.", sum.parameter(0))));
    EXPECT_GT(sum.messages(), 0);
    bytes += sum.bytes();
  }
  for (const ParameterReport& parameter : report.parameter()) {
    if (parameter.bytes_of_sum() > 0) expected.push_back(parameter.home().name());
    alone += parameter.bytes_of_sum();
  }
  EXPECT_THAT(summed, UnorderedElementsAreArray(expected));
  EXPECT_LT(report.gradient_sum_size(), expected.size()) << "some share a bucket";
  EXPECT_EQ(bytes, alone) << "nothing is filled here";
  EXPECT_THAT(Planner::Explain(report), HasSubstr(absl::StrCat(report.gradient_sum(0).name(), " ")));
}

TEST(PlanReportTest, TheFiveLargestTensorsAreInOrder) {
  const PlanReport report = MakePlanReport(PlanOf(kLeNet));
  ASSERT_EQ(report.largest_size(), 5);
  EXPECT_EQ(report.largest(0).tensor().name(), "conv1");
  EXPECT_EQ(report.largest(0).what(), "output");
  EXPECT_EQ(report.largest(1).tensor().name(), "relu1");
  for (int i = 1; i < 5; ++i) EXPECT_GE(report.largest(i - 1).tensor().bytes(), report.largest(i).tensor().bytes());
  std::vector<int64_t> all;
  for (const LayerReport& layer : report.program(0).layer()) all.push_back(layer.output().bytes());
  for (const FieldReport& field : report.program(0).field()) all.push_back(field.tensor().bytes());
  for (const ParameterReport& parameter : report.parameter()) all.push_back(parameter.home().bytes());
  std::sort(all.begin(), all.end(), std::greater<>());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(report.largest(i).tensor().bytes(), all[i]);
}

TEST(PlanReportTest, MemoryIsTheSumOfItsParts) {
  const PlanReport report = MakePlanReport(PlanOf(kLeNet));
  const MemoryReport& memory = report.memory();
  EXPECT_EQ(memory.bytes(), memory.parameters() + memory.gradients() + memory.optimizer() + memory.data() +
                                memory.activations() + memory.kernels());
  EXPECT_EQ(memory.program(), "train");
  ASSERT_EQ(memory.layer_size(), 5);
  for (int i = 1; i < 5; ++i) EXPECT_GE(memory.layer(i - 1).bytes(), memory.layer(i).bytes());
}

TEST(PlanReportTest, MemoryHasWhatTheOptimizerKeeps) {
  Plan plan = PlanOf(kLeNet);
  Optimizer* optimizer = plan.mutable_spec()->mutable_train()->mutable_optimizer();
  optimizer->mutable_sgd()->clear_momentum();
  EXPECT_EQ(MakePlanReport(plan).memory().optimizer(), 0);
  optimizer->mutable_adam()->set_amsgrad(true);
  const MemoryReport memory = MakePlanReport(plan).memory();
  EXPECT_EQ(memory.optimizer(), 3 * memory.parameters());
}

TEST(PlanReportTest, WarnsOfALimitThatTensorsExceed) {
  Plan plan = PlanOf(kLeNet);
  const int64_t needed = MakePlanReport(plan).memory().bytes();
  plan.mutable_spec()->mutable_resources()->set_memory_bytes(needed);
  EXPECT_THAT(MakePlanReport(plan).warning(), IsEmpty());
  plan.mutable_spec()->mutable_resources()->set_memory_bytes(needed - 1);
  EXPECT_THAT(MakePlanReport(plan).warning(),
              ElementsAre(AllOf(HasSubstr("resources.memory_bytes allows"), HasSubstr("or raise the limit"))));
}

TEST(PlanReportTest, WhatIsNotTrainedIsCountedApart) {
  const PlanReport report = MakePlanReport(PlanOf(JobText(
      1,
      "layout { name: \"g\" partition: [1, 1, 1, 1] }\n"
      "layer { name: \"a\" input: \"image\" x: \"g\" frozen: true conv { out_channels: 2 window { kernel: 1 } } }\n"
      "layer { name: \"n\" norm { kind: \"batch\" } }\n"
      "layer { name: \"f\" flatten {} }",
      "[1, 4, 4]", "f")));
  EXPECT_EQ(report.parameters(), 2 + 2) << "the norm's weight and bias";
  EXPECT_GE(report.untrained(), 2 + 2 + 2 + 2) << "the frozen convolution, running mean and variance";
  EXPECT_EQ(report.parts(), 1);
}

}  // namespace
}  // namespace adjoin
