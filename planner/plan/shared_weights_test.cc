// Layer.weights_of: one parameter in the plan for both layers, moved to where each reads it; what cannot be shared is
// refused with what would be right.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::StartsWith;

absl::StatusOr<Plan> PlanText(const std::string& text) {
  auto parsed = ParseSpec(text, "job.textproto");
  if (!parsed.ok()) return parsed.status();
  return Planner::Build(parsed->spec, {{"train", 19}}, BuiltinLayerRules(), &parsed->locations);
}

std::string ErrorOf(const std::string& text) {
  const auto plan = PlanText(text);
  return plan.ok() ? "" : std::string(plan.status().message());
}

const LayerPlan& LayerOf(const ProgramPlan& program, const std::string& name) {
  for (const LayerPlan& layer : program.layer()) {
    if (layer.name() == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  return program.layer(0);
}

std::vector<std::string> RolesOf(const LayerPlan& layer) {
  std::vector<std::string> roles;
  for (const OperatorUse& use : layer.op()) roles.push_back(use.role());
  return roles;
}

const OperatorPlan& OperatorOf(const ProgramPlan& program, const std::string& layer, const std::string& role) {
  for (const OperatorUse& use : LayerOf(program, layer).op()) {
    if (use.role() == role) return program.op(use.index());
  }
  ADD_FAILURE() << layer << " moves no " << role;
  return program.op(0);
}

// "a" and "c" on other ranks, with "b" between them.
std::string Twins(const std::string& of_a, const std::string& of_c) {
  return JobText(4,
                 R"(layout { name: "left" partition: [2, 1] rank: [0, 1] }
layout { name: "right" partition: [2, 1] rank: [2, 3] }
layout { name: "one" partition: [1, 1] rank: [1] }
layer { name: "a" input: "image" x: "left" )" +
                     of_a + R"( linear { out_features: 4 } }
layer { name: "b" activation { fn: "tanh" } }
layer { name: "c" x: "right" y: "one" )" +
                     of_c + " linear { out_features: 4 } }",
                 "[4]", "c");
}

TEST(SharedWeightsTest, BothLayersUseOneParameter) {
  for (const bool owner_first : {true, false}) {
    const auto plan = PlanText(owner_first ? Twins("", "weights_of: \"a\"") : Twins("weights_of: \"c\"", ""));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::string owner = owner_first ? "a" : "c", other = owner_first ? "c" : "a";
    ASSERT_EQ(plan->parameter_size(), 2);
    EXPECT_EQ(plan->parameter(0).name(), owner + ".weight");
    EXPECT_EQ(plan->parameter(1).name(), owner + ".bias");
    // Two programs: batches of 8, and one of 3.
    ASSERT_EQ(plan->program_size(), 2);
    for (const ProgramPlan& program : plan->program()) {
      for (const char* layer : {"a", "c"}) {
        ASSERT_EQ(LayerOf(program, layer).parameter_size(), 2);
        EXPECT_EQ(LayerOf(program, layer).parameter(0).index(), 0);
        EXPECT_EQ(LayerOf(program, layer).parameter(1).index(), 1);
      }
      // Both copies of the home send theirs, and their gradients come back there.
      const OperatorPlan moved = OperatorOf(program, other, "weight");
      EXPECT_EQ(moved.name(), other + ".weight");
      EXPECT_TRUE(moved.differentiable());
      EXPECT_THAT(moved.from().rank(), owner_first ? ElementsAre(0, 1) : ElementsAre(2, 3));
      EXPECT_THAT(moved.to().rank(), owner_first ? ElementsAre(2, 3) : ElementsAre(0, 1));
    }
    EXPECT_THAT(RolesOf(LayerOf(plan->program(0), "c")),
                owner_first ? ElementsAreArray({"x", "weight", "bias", "y"}) : ElementsAreArray({"x", "y"}));
    // Summed once, over the ranks of the home.
    EXPECT_TRUE(plan->parameter(0).has_sync());
  }
}

TEST(SharedWeightsTest, NothingMovesWhereBothReadItAlike) {
  const auto alike =
      PlanText(absl::StrReplaceAll(Twins("", "weights_of: \"a\""), {{"x: \"right\" y: \"one\"", "x: \"left\""}}));
  ASSERT_TRUE(alike.ok()) << alike.status();
  EXPECT_THAT(RolesOf(LayerOf(alike->program(0), "c")), ElementsAre());
}

TEST(SharedWeightsTest, AFrozenOwnersWeightsAreFrozenInBoth) {
  const std::string head = "layer { name: \"d\" linear { out_features: 3 } }\nloss";
  for (const auto& [of_a, of_c] :
       {std::pair("frozen: true", "weights_of: \"a\""), std::pair("weights_of: \"c\"", "frozen: true")}) {
    const auto plan =
        PlanText(absl::StrReplaceAll(Twins(of_a, of_c), {{"loss", head}, {"input: \"c\"", "input: \"d\""}}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const ProgramPlan& train = plan->program(0);
    EXPECT_FALSE(train.value(LayerOf(train, "c").output()).needs_grad());
    EXPECT_FALSE(OperatorOf(train, of_a[0] == 'f' ? "c" : "a", "weight").differentiable());
    EXPECT_TRUE(plan->parameter(0).frozen());
  }
}

TEST(SharedWeightsTest, AnOwnersHomeMayBeAnyRank) {
  const auto plan = PlanText(Twins("home: OWNER owner: 3", "weights_of: \"a\""));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->parameter(0).home().rank(), ElementsAre(3));
  EXPECT_FALSE(plan->parameter(0).has_sync());
  for (const char* layer : {"a", "c"}) {
    EXPECT_THAT(OperatorOf(plan->program(0), layer, "weight").from().rank(), ElementsAre(3));
  }
}

TEST(SharedWeightsTest, WhatCannotBeSharedIsRefused) {
  struct Refusal {
    std::string from, to, what;
  };
  const std::string shared = "weights_of: \"a\"", right = Twins("", shared);
  const std::string norms = JobText(1, R"(layer { name: "a" input: "image" norm { kind: "batch" } }
layer { name: "c" weights_of: "a" norm { kind: "batch" } }
layer { name: "d" linear { out_features: 4 } })",
                                    "[4]", "d");
  for (const Refusal& refusal : std::vector<Refusal>{
           {shared, "weights_of: \"z\"", "there is no layer \"z\"; the last one is \"c\""},
           {shared, "weights_of: \"c\"", "it names the layer itself"},
           {shared, "weights_of: \"b\"", "it is of kind linear, but layer \"b\" of kind activation"},
           {"name: \"b\"", "name: \"b\" " + shared, "it is of kind activation, but layer \"a\" of kind linear"},
           {shared, shared + " home: SHARDED", "it uses the weights of layer \"a\", so home is said there"},
           {shared, shared + " owner: 1", "so owner is said there"},
           {shared, shared + " frozen: true", "so frozen is said there"},
           {shared, shared + " init { kind: \"ones\" }", "so init is said there"},
           {shared + " linear { out_features: 4 }", shared + " linear { out_features: 5 }",
            "it has the parameters weight 5x4, bias 5, but layer \"a\" has weight 4x4, bias 4"},
           {shared + " linear { out_features: 4 }", shared + " linear { out_features: 4 bias: false }",
            "it has the parameters weight 4x4, but layer \"a\" has weight 4x4, bias 4"},
           {"name: \"a\"", "name: \"a\" weights_of: \"c\"",
            "layer \"c\" itself uses the weights of layer \"a\"; write weights_of: \"a\""}}) {
    SCOPED_TRACE(refusal.to);
    const std::string text = absl::StrReplaceAll(right, {{refusal.from, refusal.to}});
    ASSERT_NE(text, right);
    EXPECT_THAT(ErrorOf(text), HasSubstr(refusal.what));
    EXPECT_THAT(ErrorOf(text), StartsWith("job.textproto:"));
  }
  EXPECT_THAT(ErrorOf(norms), HasSubstr("it keeps running statistics, which two layers cannot share"));
  EXPECT_THAT(
      ErrorOf(absl::StrReplaceAll(norms, {{"norm { kind: \"batch\" }", "norm { kind: \"layer\" affine: false }"}})),
      HasSubstr("weights_of is for a layer with parameters, which this one does not have"));
  EXPECT_EQ(ErrorOf(absl::StrReplaceAll(norms, {{"norm { kind: \"batch\" }", "norm { kind: \"layer\" }"}})), "");
}

TEST(SharedWeightsTest, TheNameToWriteIsThatOfTheFirst) {
  const std::string text = JobText(1, R"(layer { name: "a" input: "image" linear { out_features: 4 } }
layer { name: "b" weights_of: "a" linear { out_features: 4 } }
layer { name: "c" weights_of: "b" linear { out_features: 4 } })",
                                   "[4]", "c");
  EXPECT_THAT(ErrorOf(text), HasSubstr("job.textproto:4:"));
  EXPECT_THAT(ErrorOf(text), HasSubstr("layer \"b\" itself uses the weights of layer \"a\"; write weights_of: \"a\""));
  EXPECT_EQ(ErrorOf(absl::StrReplaceAll(text, {{"\"b\" linear", "\"a\" linear"}})), "");
}

// Words [4] of 9, tied to the scores of each.
const std::string& Tied() {
  static const auto* text = new std::string(JobText(2, R"(layout { name: "s" partition: [2, 1] }
layer { name: "words" input: "image" x: "s" embedding { num_embeddings: 9 dim: 4 } }
layer { name: "scores" weights_of: "words" linear { out_features: 9 bias: false } }
layer { name: "flat" flatten {} })",
                                                    "[4] dtype: \"int64\"", "flat"));
  return *text;
}

TEST(SharedWeightsTest, AnEmbeddingAndALinearLayerAreTied) {
  const auto plan = PlanText(Tied());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->parameter_size(), 1);
  EXPECT_EQ(plan->parameter(0).name(), "words.weight");
  EXPECT_EQ(plan->parameter(0).init().kind(), "normal");
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(Tied(), {{" bias: false", ""}})),
              HasSubstr("an embedding has no bias that the linear layer \"scores\" could share; write linear { bias:"));
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(Tied(), {{"out_features: 9", "out_features: 8"}})),
              HasSubstr("it has the parameters weight 8x4, but layer \"words\" has weight 9x4"));
}

// As in ALBERT: each part uses the same part's weights.
TEST(SharedWeightsTest, BlocksShareAllTheirParts) {
  const std::string text = JobText(1, R"(layer { name: "a" input: "image" transformer { heads: 2 hidden: 6 } }
layer { name: "b" weights_of: "a" transformer { heads: 2 hidden: 6 } }
layer { name: "one" weights_of: "a.norm1" norm { kind: "layer" } }
layer { name: "flat" flatten {} })",
                                   "[3, 4]", "flat");
  const auto plan = PlanText(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const ParameterPlan& parameter : plan->parameter()) EXPECT_THAT(parameter.name(), StartsWith("a."));
  EXPECT_THAT(
      ErrorOf(absl::StrReplaceAll(text, {{"weights_of: \"a\" transformer", "weights_of: \"a.norm1\" transformer"}})),
      HasSubstr("there is no layer"));
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(text, {{"\"a.norm1\"", "\"a.norm3\""}})),
              HasSubstr("there is no layer \"a.norm3\""));
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(text, {{"\"a.norm1\"", "\"b.norm1\""}})),
              HasSubstr("write weights_of: \"a.norm1\""));
  EXPECT_THAT(
      ErrorOf(absl::StrReplaceAll(text,
                                  {{"hidden: 6 } }\nlayer { name: \"one\"", "hidden: 7 } }\nlayer { name: \"one\""}})),
      HasSubstr(
          "its layer \"b.linear1\": it has the parameters weight 7x4, bias 7, but layer \"a.linear1\" has weight 6x4"));
}

}  // namespace
}  // namespace adjoin
