#include "planner/plan/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/operator_plan.h"
#include "planner/plan/plan_fixtures.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `features` of linear layers; the batch is cut over the ranks.
std::string Mlp(int ranks, const std::vector<int>& features, const std::string& of_layers = "") {
  std::string text = absl::StrCat("name: \"mlp\" kind: TRAIN ranks: ", ranks,
                                  " seed: 1\nlayout { name: \"rows\" partition: [", ranks, ", 1] }\n");
  for (size_t i = 1; i < features.size(); ++i) {
    absl::StrAppend(&text, "layer { name: \"l", i, "\" ", i == 1 ? "input: \"x\" " : "", "x: \"rows\" ", of_layers,
                    " linear { out_features: ", features[i], " } }\n");
  }
  absl::StrAppend(&text, "loss { kind: \"cross_entropy\" input: \"l", features.size() - 1, "\" target: \"label\" }\n",
                  "dataset { name: \"data\" field { name: \"x\" idx { path: \"i\" } shape: [", features[0],
                  "] } field { name: \"label\" idx { path: \"l\" } dtype: \"int64\" } }\n",
                  "train { dataset: \"data\" batch: ", 2 * ranks, " steps: 4 optimizer { sgd { lr: 0.1 } } }\n");
  return text;
}

Plan PlanOf(const std::string& text) {
  auto plan = PlanText(text, {{"data", 4096}});
  EXPECT_TRUE(plan.ok()) << plan.status() << "\n" << text;
  return plan.ok() ? *std::move(plan) : Plan();
}

std::vector<GradientSum> SumsOf(const Plan& plan) {
  auto sums = GradientSums(plan);
  EXPECT_TRUE(sums.ok()) << sums.status();
  return sums.ok() ? *std::move(sums) : std::vector<GradientSum>();
}

int64_t MessagesOf(const OperatorPlan& op) {
  const auto traffic = TrafficOf(op);
  EXPECT_TRUE(traffic.ok()) << traffic.status();
  int64_t messages = 0;
  for (const RankTraffic& rank : traffic->forward.rank) messages = std::max(messages, rank.messages_sent);
  return messages;
}

TEST(GradientBucketsTest, EachGradientIsInOneSumAndTheLastOnesComeFirst) {
  for (const int ranks : {2, 3, 4, 16, 64}) {
    const Plan plan = PlanOf(Mlp(ranks, {30, 7, 200, 64, 64, 10, 300, 1, 9, 5}));
    std::vector<int> all, firsts;
    for (const GradientSum& sum : SumsOf(plan)) {
      all.insert(all.end(), sum.parameters.begin(), sum.parameters.end());
      EXPECT_TRUE(std::is_sorted(sum.parameters.rbegin(), sum.parameters.rend()));
      firsts.push_back(sum.parameters.back());
      const auto home = LayoutFromProto(sum.movement.to());
      ASSERT_TRUE(home.ok()) << home.status();
      const int64_t bytes = VolumeOf(home->shape()) * SizeOf(home->dtype());
      if (sum.parameters.size() > 1) {
        EXPECT_LE(bytes, kLargestBucket);
      }
      for (const int i : sum.parameters) {
        const auto of_one = LayoutFromProto(plan.parameter(i).home());
        ASSERT_TRUE(of_one.ok());
        if (VolumeOf(of_one->shape()) * SizeOf(of_one->dtype()) > kLargestInBucket) {
          EXPECT_EQ(sum.parameters.size(), 1u) << plan.parameter(i).name();
          EXPECT_EQ(sum.movement.name(), plan.parameter(i).sync().name());
        }
      }
    }
    EXPECT_TRUE(std::is_sorted(firsts.rbegin(), firsts.rend()));
    std::sort(all.begin(), all.end());
    std::vector<int> expected;
    for (int i = 0; i < plan.parameter_size(); ++i) expected.push_back(i);
    EXPECT_EQ(all, expected);
  }
}

// A bucket is added up as each of its gradients would be.
TEST(GradientBucketsTest, ABucketHasTheAlgorithmOfItsGradients) {
  const auto algorithm = [](const OperatorPlan& op) {
    const auto traffic = TrafficOf(op);
    const std::string& text = traffic->forward.algorithm;
    return text.substr(text.find('('));
  };
  for (const int ranks : {3, 4, 8, 16, 32, 64}) {
    std::vector<int> features = {12};
    for (int i = 0; i < 60; ++i) features.push_back(1 + i * i % 97);
    const Plan plan = PlanOf(Mlp(ranks, features));
    size_t several = 0;
    for (const GradientSum& sum : SumsOf(plan)) {
      several += sum.parameters.size() > 1 ? 1 : 0;
      for (const int i : sum.parameters) {
        EXPECT_EQ(algorithm(plan.parameter(i).sync()), algorithm(sum.movement)) << plan.parameter(i).name();
      }
      EXPECT_EQ(sum.rows, algorithm(sum.movement) == "(pairwise exchange)" && sum.parameters.size() > 1 ? ranks : 1);
    }
    EXPECT_GE(several, 2u) << ranks;
  }
}

TEST(GradientBucketsTest, ManySmallGradientsTakeFewMessages) {
  const Plan plan = PlanOf(Mlp(4, std::vector<int>(61, 32)));
  int64_t alone = 0, together = 0;
  for (const ParameterPlan& parameter : plan.parameter()) alone += MessagesOf(parameter.sync());
  const std::vector<GradientSum> sums = SumsOf(plan);
  for (const GradientSum& sum : sums) together += MessagesOf(sum.movement);
  EXPECT_EQ(alone, 120 * 3);
  // Weights of 4 KiB, two to a plain list of at most 10.4 KB with biases of 128 bytes.
  EXPECT_LE(together, 40 * 3);
  // What is sent is as much as before, and is what the plan says.
  for (int rank = 0; rank < 4; ++rank) {
    int64_t bytes = 0;
    for (const ParameterPlan& parameter : plan.parameter()) bytes += parameter.sync().bytes_forward(rank);
    for (const OperatorPlan& op : plan.program(0).op()) {
      bytes += op.bytes_forward(rank) + (op.differentiable() ? op.bytes_adjoint(rank) : 0);
    }
    EXPECT_EQ(plan.program(0).bytes_per_step(rank), bytes);
  }
}

TEST(GradientBucketsTest, WhatDoesNotMoveIsNotSummed) {
  EXPECT_TRUE(SumsOf(PlanOf(Mlp(1, {4, 5}))).empty());
  EXPECT_TRUE(SumsOf(PlanOf(Mlp(2, {4, 6, 5}, "home: OWNER"))).empty());
  EXPECT_TRUE(SumsOf(PlanOf(Mlp(2, {4, 6, 5}, "home: SHARDED"))).empty());
}

// Layers on other ranks, and those whose weights are cut, have buckets of their own.
TEST(GradientBucketsTest, OtherRanksHaveOtherBuckets) {
  const Plan plan = PlanOf(R"job(name: "two" kind: TRAIN ranks: 4 seed: 1
layout { name: "all" partition: [4, 1] }
layout { name: "some" partition: [2, 1] rank: [3, 1] }
layout { name: "w" mesh { size: 2 } mesh { size: 2 } sbp: ["B", "S(0)"] }
layer { name: "a" input: "x" x: "all" linear { out_features: 8 } }
layer { name: "b" x: "some" linear { out_features: 8 } }
layer { name: "c" x: "all" w: "w" linear { out_features: 8 } }
layer { name: "d" x: "all" weights_of: "a" linear { out_features: 8 } }
layer { name: "e" x: "all" linear { out_features: 8 } }
loss { kind: "cross_entropy" input: "e" target: "label" }
dataset { name: "data" field { name: "x" idx { path: "i" } shape: [8] }
  field { name: "label" idx { path: "l" } dtype: "int64" } }
train { dataset: "data" batch: 8 steps: 4 optimizer { sgd { lr: 0.1 } } })job");
  const std::vector<GradientSum> sums = SumsOf(plan);
  std::vector<std::string> names;
  for (const GradientSum& sum : sums) names.push_back(sum.movement.name());
  EXPECT_THAT(names, ElementsAre("sync.c.weight and 1 more", "sync.b.weight and 1 more", "sync.a.weight and 3 more"));
  ASSERT_EQ(sums.size(), 3u);
  // The bucket of c: rows of its weight and elements of its bias, in halves.
  EXPECT_THAT(sums[0].movement.to().placement(), ElementsAre("B", "S(0)"));
  EXPECT_THAT(sums[0].movement.to().shape(), ElementsAre(8 * 8 + 8));
  // a's weights are d's as well, and so complete only when the backward pass has gone through a.
  EXPECT_THAT(SumsCompleteAt(sums, plan.program(0)),
              ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0), IsEmpty(), IsEmpty()));
}

}  // namespace
}  // namespace adjoin
