#include "planner/plan/planner.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/plan_fixtures.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const LayerPlan& LayerOf(const ProgramPlan& program, const std::string& name) {
  for (const LayerPlan& layer : program.layer()) {
    if (layer.name() == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  return program.layer(0);
}

// Returns the layer's operators by role.
std::map<std::string, OperatorPlan> OperatorsOf(const ProgramPlan& program, const std::string& layer) {
  std::map<std::string, OperatorPlan> ops;
  for (const OperatorUse& use : LayerOf(program, layer).op()) ops[use.role()] = program.op(use.index());
  return ops;
}

std::vector<std::string> RolesOf(const ProgramPlan& program, const std::string& layer) {
  std::vector<std::string> roles;
  for (const OperatorUse& use : LayerOf(program, layer).op()) roles.push_back(use.role());
  return roles;
}

template <typename List>
int64_t Sum(const List& list) {
  int64_t sum = 0;
  for (int64_t value : list) sum += value;
  return sum;
}

TEST(PlannerTest, PlansLeNetOverFourRanks) {
  const auto plan = PlanText(kLeNet, MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  // drop_last leaves no tail of training; 200 tests are 3 batches of 64 and one of 8.
  ASSERT_EQ(plan->program_size(), 3);
  EXPECT_EQ(plan->program(1).name(), "evaluate");
  EXPECT_EQ(plan->program(2).batch(), 8);
  const ProgramPlan& train = plan->program(0);
  EXPECT_THAT(RolesOf(train, "conv1"), ElementsAre("x", "weight", "bias"));
  EXPECT_THAT(RolesOf(train, "relu1"), ElementsAre());
  EXPECT_THAT(RolesOf(train, "pool1"), ElementsAre());  // 28 over 2 by windows of 2: nothing to fetch
  EXPECT_THAT(RolesOf(train, "pool2"), ElementsAre("x"));
  EXPECT_THAT(RolesOf(train, "to_chan"), ElementsAre("y"));
  EXPECT_THAT(RolesOf(train, "flat"), ElementsAre());
  EXPECT_THAT(RolesOf(train, "fc1"), ElementsAre("x", "y"));  // the weight's blocks do not move
  EXPECT_THAT(RolesOf(train, "fc2"), ElementsAre("x", "y"));
  EXPECT_THAT(LayerOf(train, "conv2").halo(0).left(), ElementsAre(0, 2));
  EXPECT_THAT(LayerOf(train, "pool2").halo(1).left(), ElementsAre(0, -1));
  EXPECT_EQ(LayerOf(train, "conv1").spec().input(0), "image");
  EXPECT_EQ(LayerOf(train, "relu1").spec().input(0), "conv1");
  ASSERT_EQ(plan->parameter_size(), 10);
  EXPECT_EQ(plan->parameter(0).name(), "conv1.weight");
  EXPECT_EQ(plan->parameter(5).name(), "fc1.bias");
  for (const ParameterPlan& parameter : plan->parameter()) {
    EXPECT_FALSE(parameter.has_sync()) << parameter.name() << ": one owner, or blocks, need no sum afterwards";
    EXPECT_TRUE(parameter.has_collect());
  }
}

TEST(PlannerTest, OnlyWhatNeedsAGradientIsDifferentiable) {
  const auto plan = PlanText(kLeNet, MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ProgramPlan& train = plan->program(0);
  EXPECT_FALSE(OperatorsOf(train, "conv1").at("x").differentiable()) << "the images need no gradient";
  EXPECT_TRUE(OperatorsOf(train, "conv1").at("weight").differentiable());
  EXPECT_TRUE(OperatorsOf(train, "conv2").at("x").differentiable());
  EXPECT_FALSE(train.value(LayerOf(train, "conv1").input(0)).needs_grad());
  EXPECT_TRUE(train.value(LayerOf(train, "conv1").output()).needs_grad());
  for (const OperatorPlan& op : plan->program(1).op()) {
    EXPECT_FALSE(op.differentiable()) << op.name();
    EXPECT_EQ(op.bytes_adjoint_size(), 0);
  }
}

TEST(PlannerTest, FrozenLayersHaveNoGradientAndNoSum) {
  const std::string layers = R"(layout { name: "b" partition: [2, 1] }
layer { name: "a" input: "image" x: "b" frozen: true linear { out_features: 5 } }
layer { name: "c" linear { out_features: 3 } })";
  const auto plan = PlanText(JobText(2, layers, "[4]", "c"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->parameter(0).frozen());
  EXPECT_FALSE(plan->parameter(0).has_sync());
  EXPECT_TRUE(plan->parameter(2).has_sync());
  EXPECT_FALSE(plan->program(0).value(LayerOf(plan->program(0), "a").output()).needs_grad());
  EXPECT_TRUE(plan->program(0).value(LayerOf(plan->program(0), "c").output()).needs_grad());
  EXPECT_THAT(
      ErrorOf(JobText(2, absl::StrReplaceAll(layers, {{"name: \"c\"", "name: \"c\" frozen: true"}}), "[4]", "c")),
      HasSubstr("nothing to train"));
}

TEST(PlannerTest, BytesEqualAnIndependentCount) {
  const auto plan = PlanText(LeNetWith("home: OWNER", "home: REPLICATED"), MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ProgramPlan& train = plan->program(0);
  // Images of 14x14 per rank; outputs read 16x16 of them, 60 of which other ranks hold.
  EXPECT_EQ(Sum(OperatorsOf(train, "conv1").at("x").bytes_forward()), 4 * 64 * 60 * 4);
  // 6 channels of 7x7; 5x5 outputs read 9x9: 81 - 49, on 4 ranks.
  EXPECT_EQ(Sum(OperatorsOf(train, "conv2").at("x").bytes_forward()), 4 * 64 * 6 * (81 - 49) * 4);
  EXPECT_EQ(Sum(OperatorsOf(train, "conv2").at("x").bytes_adjoint()), 4 * 64 * 6 * (81 - 49) * 4);
  // Sum of 4 ranks' 150 numbers: each sends its own to the 3 others.
  EXPECT_THAT(plan->parameter(0).sync().bytes_forward(), ElementsAre(1800, 1800, 1800, 1800));
  EXPECT_THAT(plan->parameter(2).sync().bytes_forward(), ElementsAre(28800, 28800, 28800, 28800));
  // The weights do not move.
  EXPECT_THAT(RolesOf(train, "conv1"), ElementsAre("x"));
  for (int rank = 0; rank < 4; ++rank) {
    int64_t bytes = 0;
    for (const OperatorPlan& op : train.op()) {
      bytes += op.bytes_forward(rank) + (op.bytes_adjoint_size() > 0 ? op.bytes_adjoint(rank) : 0);
    }
    for (const ParameterPlan& parameter : plan->parameter()) {
      if (parameter.has_sync()) bytes += parameter.sync().bytes_forward(rank);
    }
    EXPECT_EQ(train.bytes_per_step(rank), bytes);
  }
}

TEST(PlannerTest, OneRankMovesNothing) {
  const std::string text =
      absl::StrReplaceAll(kLeNet, {{"ranks: 4", "ranks: 1"},
                                   {"x: \"grid\" ", ""},
                                   {"x: \"row\" w: \"w2x2\" y: \"col\" ", ""},
                                   {"layer { name: \"to_chan\" y: \"chan\" repartition {} }", ""},
                                   {"layout { name: \"grid\" partition: [1,1,2,2] }", ""},
                                   {"layout { name: \"w2x2\" partition: [2,2] }", ""},
                                   {"layout { name: \"row\"  partition: [1,2] rank: [0,1] }", ""},
                                   {"layout { name: \"col\"  partition: [1,2] rank: [0,2] }", ""},
                                   {"layout { name: \"chan\" partition: [1,2,1,1] rank: [0,1] }", ""}});
  const auto plan = PlanText(text, MnistSizes());
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const ProgramPlan& program : plan->program()) {
    EXPECT_THAT(program.bytes_per_step(), ElementsAre(0));
    EXPECT_EQ(program.op_size(), 1) << "the report; the first convolution's kernel pads its input itself";
  }
}

TEST(PlannerTest, AFieldIsReadInEachLayoutOnce) {
  const auto plan = PlanText(JobText(2, R"(layout { name: "rows" partition: [2, 1] }
layout { name: "cols" partition: [1, 2] }
layout { name: "w" partition: [1, 2] }
layer { name: "a" input: "image" x: "rows" linear { out_features: 3 } }
layer { name: "b" input: "image" x: "rows" activation { fn: "relu" } }
layer { name: "c" input: "image" x: "cols" w: "w" linear { out_features: 3 } })",
                                     "[4]", "a"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> fields;
  for (const ValuePlan& value : plan->program(0).value()) {
    if (!value.field().empty()) fields.push_back(value.name());
  }
  EXPECT_THAT(fields, ElementsAre("image", "image#2", "label"));
  EXPECT_THAT(plan->program(0).value(plan->program(0).loss(0).target()).layout().shape(), ElementsAre(8));
  EXPECT_EQ(plan->program(0).loss(0).op_size(), 0) << "rows are whole already";
}

TEST(PlannerTest, SizesDecideThePrograms) {
  const std::string text = LeNetWith("drop_last: true ", "");
  const auto names = [&](const DatasetSizes& sizes) {
    std::vector<std::string> result;
    const auto plan = PlanText(text, sizes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (const ProgramPlan& program : plan->program())
      result.push_back(absl::StrCat(program.name(), " ", program.batch()));
    return result;
  };
  EXPECT_THAT(names({}), ElementsAre("train 64", "evaluate 64"));
  EXPECT_THAT(names({{"train", 128}, {"test", 64}}), ElementsAre("train 64", "evaluate 64"));
  EXPECT_THAT(names({{"train", 130}, {"test", 10}}), ElementsAre("train 64", "train_tail 2", "evaluate 10"));
  EXPECT_THAT(names({{"train", 3}, {"test", 65}}),
              ElementsAre("train 64", "train_tail 3", "evaluate 64", "evaluate_tail 1"));
  EXPECT_THAT(ErrorOf(kLeNet, {{"train", 3}}), HasSubstr("drop_last leaves nothing to train on"));
  EXPECT_THAT(ErrorOf(kLeNet, {{"train", 0}}), HasSubstr("no samples"));
  const auto limited = PlanText(LeNetWith("shuffle: true", "shuffle: true limit: 100"), MnistSizes());
  EXPECT_EQ(limited->dataset(0).samples(), 100);
}

TEST(PlannerTest, PlansEmptyParts) {
  const auto plan = PlanText(JobText(7, R"(layout { name: "g" partition: [1, 1, 7] }
layout { name: "c" partition: [1, 7, 1] }
layout { name: "w" partition: [1, 7] }
layer { name: "a" input: "image" x: "g" home: SHARDED conv { out_channels: 2 window { kernel: 2 stride: 2 } } }
layer { name: "b" pool { mode: "max" window { kernel: 2 } } }
layer { name: "m" y: "c" repartition {} }
layer { name: "f" flatten {} }
layer { name: "d" w: "w" linear { out_features: 3 } })",
                                     "[1, 5]", "d"));
  ASSERT_TRUE(plan.ok()) << plan.status();
}

TEST(PlannerTest, TheHashCoversTheWholePlan) {
  const auto a = PlanText(kLeNet, MnistSizes()), b = PlanText(kLeNet, MnistSizes());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->SerializeAsString(), b->SerializeAsString());
  EXPECT_EQ(Planner::Hash(*a), Planner::Hash(*b));
  EXPECT_EQ(Planner::Hash(*a).size(), 32u);
  std::set<std::string> hashes = {Planner::Hash(*a)};
  for (const auto& edit : std::vector<std::pair<std::string, std::string>>{
           {"seed: 1", "seed: 2"},
           {"momentum: 0.9", "momentum: 0.8"},
           {"rank: [0,2]", "rank: [0,3]"},
           {"conv { out_channels: 16", "frozen: true conv { out_channels: 16"},
           {"home: OWNER conv { out_channels: 16", "conv { out_channels: 16"}}) {
    const auto changed = PlanText(LeNetWith(edit.first, edit.second), MnistSizes());
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_TRUE(hashes.insert(Planner::Hash(*changed)).second) << edit.second;
  }
}

TEST(PlannerTest, AUsersRuleIsUsed) {
  const auto double_rule = [](const LayerRequest& request) -> absl::StatusOr<LayerOutcome> {
    return LayerOutcome{.spec = request.spec,
                        .input = {InputNeed{}},
                        .parameter = {},
                        .compute = request.input[0],
                        .output = request.input[0],
                        .flops = 1};
  };
  const std::string text = JobText(1, R"(layer { name: "a" input: "image" linear { out_features: 3 } }
layer { name: "b" custom { type: "double" arg { key: "k" value: "v" } } })",
                                   "[4]", "b");
  EXPECT_THAT(ErrorOf(text), HasSubstr("job.textproto:3:28: layer 1 \"b\": layer type \"double\" is not known"));
  LayerRules rules;
  ASSERT_TRUE(AddBuiltinLayerRules(rules).ok());
  ASSERT_TRUE(rules.Register("double", double_rule).ok());
  const auto plan = Planner::Build(ParseSpec(text, "")->spec, {}, rules);
  EXPECT_TRUE(plan.ok()) << plan.status();
}

// A built-in rule would ignore the arguments.
TEST(PlannerTest, ABuiltInLayerIsNoCustomOne) {
  const std::string text = JobText(1, R"(layer { name: "a" input: "image" linear { out_features: 3 } }
layer { name: "b" custom { type: "flatten" arg { key: "k" value: "v" } } })",
                                   "[4]", "b");
  EXPECT_THAT(ErrorOf(text), HasSubstr("job.textproto:3:28: layer 1 \"b\": \"flatten\" is a field of Layer"));
}

TEST(PlannerTest, PlansAMeshWithPlacements) {
  const auto plan = PlanText(
      JobText(4, R"(layout { name: "g" mesh { name: "b" size: 2 } mesh { name: "r" size: 2 } sbp: 'S(0)' sbp: "B" }
layer { name: "a" input: "image" x: "g" linear { out_features: 3 } })",
              "[4]", "a"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Each row of the prediction goes to one rank, so that copies do not count twice.
  ASSERT_EQ(plan->program(0).loss(0).op_size(), 1);
  EXPECT_EQ(plan->program(0).loss(0).op(0).role(), "prediction");
  EXPECT_THAT(ErrorOf(JobText(2, R"(layout { name: "g" mesh { size: 2 } sbp: 'P(sum)' }
layer { name: "a" input: "image" x: "g" linear { out_features: 3 } })",
                              "[4]", "a")),
              HasSubstr("can neither read nor return"));
}

}  // namespace
}  // namespace adjoin
