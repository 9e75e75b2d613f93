// Each built-in rule alone: shapes, parameters, layouts, against numbers worked out by hand or by loops.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/builtin/rule_fixture.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shape64 = std::vector<int64_t>;

absl::StatusOr<LayerOutcome> Apply(const std::string& text, const Layout& x, const std::string& layouts = "") {
  return ApplyRule(text, {x}, layouts);
}

TEST(ConvRuleTest, ShapesOfOneTwoAndThreeDims) {
  auto one = Apply("name: 'c' conv { out_channels: 4 window { kernel: 3 stride: 2 } }", Cut({2, 3, 11}, {1, 1, 2}));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(one->output.shape(), ElementsAre(2, 4, 5));
  EXPECT_THAT(one->parameter[0].home.shape(), ElementsAre(4, 3, 3));
  EXPECT_EQ(one->parameter[0].fan_in, 9);
  auto two = Apply(
      "name: 'c' conv { out_channels: 6 groups: 3 bias: false window { kernel: [3, 5] dilation: [2, 1] pad_lo: [1, 0] "
      "pad_hi: [2, 0] } }",
      Cut({2, 9, 10, 12}, {1, 1, 2, 2}));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_THAT(two->output.shape(), ElementsAre(2, 6, 9, 8));
  ASSERT_EQ(two->parameter.size(), 1u);
  EXPECT_THAT(two->parameter[0].home.shape(), ElementsAre(6, 3, 3, 5));
  EXPECT_EQ(two->parameter[0].fan_in, 45);
  EXPECT_EQ(two->flops, 2.0 * 2 * 6 * 9 * 8 * 45);
  auto three = Apply("name: 'c' conv { out_channels: 1 window { kernel: 2 } }", Cut({1, 1, 4, 5, 6}, {1, 1, 1, 1, 2}));
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT(three->output.shape(), ElementsAre(1, 1, 3, 4, 5));
  EXPECT_EQ(three->spec.conv().window().stride_size(), 3);
  EXPECT_TRUE(three->spec.conv().bias());
}

TEST(ConvRuleTest, RandomOutputSizesEqualACount) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) { return from + static_cast<int>(random() % (to - from + 1)); };
    const int n = pick(1, 20), k = pick(1, 5), s = pick(1, 4), d = pick(1, 3), lo = pick(0, 4), hi = pick(0, 4);
    int outputs = 0;
    while (outputs * s + d * (k - 1) < n + lo + hi) ++outputs;
    const auto outcome = Apply(absl::StrCat("name: 'c' conv { out_channels: 1 window { kernel: ", k, " stride: ", s,
                                            " dilation: ", d, " pad_lo: ", lo, " pad_hi: ", hi, " } }"),
                               Cut({1, 1, n}, {1, 1, pick(1, 6)}));
    if (outputs == 0) {
      EXPECT_THAT(ErrorOf(outcome), HasSubstr("larger than the padded input")) << "ADJOIN_TEST_SEED=" << seed;
    } else {
      ASSERT_TRUE(outcome.ok()) << outcome.status() << " ADJOIN_TEST_SEED=" << seed;
      EXPECT_EQ(outcome->output.shape()[2], outputs) << "ADJOIN_TEST_SEED=" << seed;
    }
  }
}

TEST(ConvRuleTest, OutputIsCutEvenlyAndTheBatchAsTheInput) {
  auto outcome = Apply("name: 'c' conv { out_channels: 4 window { kernel: 5 } }",
                       Cut({5, 1, 11}, {2, 1, 3}, {{0, {1, 4}}, {2, {9, 1, 1}}}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->output.Boundaries(0), ElementsAre(0, 1, 5));
  EXPECT_THAT(outcome->output.Boundaries(2), ElementsAre(0, 3, 5, 7));
  EXPECT_EQ(outcome->compute, outcome->output);
}

TEST(ConvRuleTest, YOfTheSameMeshIsComputedInPlaceAndOthersAreMovedTo) {
  const std::string conv = "name: 'c' y: 'y' conv { out_channels: 4 window { kernel: 3 } }";
  const Layout x = Cut({4, 1, 11}, {1, 1, 3});
  auto same = Apply(conv, x, "layout { name: 'y' partition: [1, 1, 3] cut { dim: 2 size: [7, 0, 2] } }");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->compute.Boundaries(2), ElementsAre(0, 7, 7, 9));
  auto other = Apply(conv, x, "layout { name: 'y' partition: [2, 2, 1] }");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->compute.mesh(), x.mesh());
  EXPECT_EQ(other->output.Parts(1), 2);
}

TEST(ConvRuleTest, Homes) {
  const Layout x = Layout::Partition({4, 1, 11}, DType::kFloat32, {1, 1, 2}, {3, 5}).value();
  const std::string op = " conv { out_channels: 4 window { kernel: 3 } }";
  EXPECT_THAT(Apply("name: 'c'" + op, x)->parameter[0].home.mesh().ranks(), ElementsAre(3, 5));
  EXPECT_THAT(Apply("name: 'c' home: OWNER" + op, x)->parameter[0].home.mesh().ranks(), ElementsAre(3));
  EXPECT_THAT(Apply("name: 'c' home: OWNER owner: 5" + op, x)->parameter[1].home.mesh().ranks(), ElementsAre(5));
  // Any rank, also one that takes no part in the layer.
  EXPECT_THAT(Apply("name: 'c' home: OWNER owner: 4" + op, x)->parameter[0].home.mesh().ranks(), ElementsAre(4));
  EXPECT_THAT(ErrorOf(Apply("name: 'c' owner: 5" + op, x)), HasSubstr("home: OWNER"));
  const auto sharded = Apply("name: 'c' home: SHARDED" + op, x);
  EXPECT_THAT(sharded->parameter[0].home.LocalShape(3), ElementsAre(2, 1, 3));
  EXPECT_THAT(sharded->parameter[0].needed.LocalShape(3), ElementsAre(4, 1, 3));
}

TEST(ActivationRuleTest, AnyLayoutStays) {
  const Layout x = Cut({2, 3, 11}, {1, 3, 2});
  EXPECT_EQ(Apply("name: 'r' activation { fn: 'relu' }", x)->output, x);
  EXPECT_THAT(ErrorOf(Apply("name: 'r' home: OWNER activation { fn: 'relu' }", x)), HasSubstr("it has none"));
}

TEST(ActivationRuleTest, ArgumentsAreFilledIn) {
  const Layout x = Cut({2, 3, 11}, {1, 3, 2});
  const auto arguments = [&](const std::string& text) {
    const auto outcome = Apply("name: 'a' activation { " + text + " }", x);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    const auto& arg = outcome->spec.activation().arg();
    return std::vector<double>(arg.begin(), arg.end());
  };
  EXPECT_THAT(arguments("fn: 'gelu'"), ElementsAre());
  EXPECT_THAT(arguments("fn: 'leaky_relu'"), ElementsAre(0.01));
  EXPECT_THAT(arguments("fn: 'softplus' arg: 2"), ElementsAre(2, 20));
  EXPECT_THAT(arguments("fn: 'threshold' arg: [0.5, -1]"), ElementsAre(0.5, -1));
}

TEST(ActivationRuleTest, WhatIsNotKnownOrOutOfRangeIsNamed) {
  const auto error = [](const std::string& text) {
    return ErrorOf(Apply("name: 'a' activation { " + text + " }", Cut({2, 3, 11}, {1, 3, 2})));
  };
  EXPECT_THAT(
      error("fn: 'ReLU'"),
      HasSubstr("\"ReLU\" is not known; these are: abs, acos, acosh, add, asin, asinh, atan, atanh, celu, clamp, "));
  EXPECT_THAT(error(""), HasSubstr("activation.fn is missing; these are: abs"));
  EXPECT_THAT(error("fn: 'relu' arg: 1"), HasSubstr("relu has no arguments, but 1 are given"));
  EXPECT_THAT(error("fn: 'elu' arg: [1, 2]"), HasSubstr("elu(alpha = 1) has 1 argument, but 2 are given"));
  EXPECT_THAT(error("fn: 'threshold' arg: 1"), HasSubstr("argument value of threshold(threshold, value) is missing"));
  EXPECT_THAT(error("fn: 'softshrink' arg: -1"), HasSubstr("lambd must be at least 0"));
  EXPECT_THAT(error("fn: 'hardtanh' arg: [1, 1]"), HasSubstr("max_val must be above min_val"));
  EXPECT_THAT(error("fn: 'clamp' arg: [1, 0.5]"), HasSubstr("max must not be below min"));
  EXPECT_THAT(error("fn: 'pow'"), HasSubstr("argument exponent of pow(exponent) is missing"));
  EXPECT_THAT(error("fn: 'elu' arg: inf"), HasSubstr("argument alpha of elu is inf; it must be finite"));
  EXPECT_THAT(error("fn: 'prelu' arg: 2"), HasSubstr("has 3 channels"));
  EXPECT_THAT(error("fn: 'prelu' arg: 1.5"), HasSubstr("num_parameters must be 1 or"));
}

TEST(ActivationRuleTest, PrelusWeightIsCutAsTheChannels) {
  const Layout x = Cut({2, 5, 4}, {1, 2, 2}, {{1, {4, 1}}});
  const auto each = Apply("name: 'p' activation { fn: 'prelu' arg: 5 }", x);
  ASSERT_TRUE(each.ok()) << each.status();
  EXPECT_EQ(each->parameter[0].role, "weight");
  EXPECT_EQ(each->parameter[0].initial, 0.25);
  EXPECT_THAT(each->parameter[0].needed.LocalShape(1), ElementsAre(4));
  EXPECT_THAT(each->parameter[0].needed.LocalShape(2), ElementsAre(1));
  const auto one = Apply("name: 'p' home: OWNER owner: 3 activation { fn: 'prelu' arg: [1, 0.5] }", x);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->parameter[0].initial, 0.5);
  EXPECT_THAT(one->parameter[0].home.mesh().ranks(), ElementsAre(3));
  EXPECT_THAT(one->parameter[0].needed.mesh().ranks(), ElementsAre(0, 1, 2, 3));
}

TEST(SoftmaxRuleTest, AMaximumAndASumPerRowWhereTheDimIsCut) {
  const auto whole = Apply("name: 's' softmax { dim: -1 }", Cut({4, 3, 7}, {2, 2, 1}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->movement.empty());
  EXPECT_EQ(whole->spec.softmax().dim(), 2);
  const Layout x = Cut({4, 3, 7}, {2, 1, 3}, {{0, {3, 1}}, {2, {0, 5, 2}}});
  const auto cut = Apply("name: 's' softmax { dim: 2 }", x);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->output, x);
  ASSERT_EQ(cut->movement.size(), 2u);
  EXPECT_EQ(cut->movement[0].role, "max");
  EXPECT_TRUE(cut->movement[0].constant);
  EXPECT_EQ(cut->movement[0].from.placements()[2], Placement::Partial(ReduceOp::kMax));
  EXPECT_EQ(cut->movement[1].role, "sum");
  EXPECT_FALSE(cut->movement[1].constant);
  EXPECT_EQ(cut->movement[1].from.placements()[2], Placement::Partial());
  for (const MovementNeed& movement : cut->movement) {
    EXPECT_EQ(movement.to.placements()[2], Placement::Broadcast());
    EXPECT_THAT(movement.from.LocalShape(0), ElementsAre(3, 3, 1));
    EXPECT_THAT(movement.to.LocalShape(5), ElementsAre(1, 3, 1));
  }
  EXPECT_THAT(ErrorOf(Apply("name: 's' softmax { dim: 3 }", x)), HasSubstr("dim 3 of an input of 3 dims; -3 to 2"));
  EXPECT_THAT(ErrorOf(Apply("name: 's' w: 'w' softmax {}", x)), HasSubstr("it has none"));
}

TEST(FlattenRuleTest, CutsBecomeThoseOfTheMergedDim) {
  const auto channels = Apply("name: 'f' flatten {}", Cut({2, 3, 5, 5}, {1, 2, 1, 1}));
  ASSERT_TRUE(channels.ok()) << channels.status();
  EXPECT_EQ(channels->output, Cut({2, 75}, {1, 2}, {{1, {50, 25}}}));
  EXPECT_EQ(Apply("name: 'f' flatten {}", Cut({2, 4, 5, 5}, {1, 2, 1, 1}))->output, Cut({2, 100}, {1, 2}));
  EXPECT_EQ(Apply("name: 'f' flatten {}", Cut({4, 4, 5, 5}, {3, 1, 1, 1}))->output, Cut({4, 100}, {3, 1}));
  // A dim of one element outside the cut one changes nothing.
  EXPECT_EQ(Apply("name: 'f' flatten {}", Cut({2, 1, 6, 5}, {1, 1, 4, 1}))->output,
            Cut({2, 30}, {1, 4}, {{1, {10, 10, 5, 5}}}));
  EXPECT_EQ(Apply("name: 'f' flatten { arg: [0, 1] }", Cut({4, 3, 6}, {2, 1, 3}))->output, Cut({12, 6}, {2, 3}));
  EXPECT_EQ(Apply("name: 'f' flatten { arg: [-2, -1] }", Cut({4, 3, 6}, {2, 3, 1}))->output, Cut({4, 18}, {2, 3}));
  // Parts without cells stay.
  EXPECT_EQ(Apply("name: 'f' flatten {}", Cut({2, 1, 5, 5}, {1, 3, 1, 1}))->output,
            Cut({2, 25}, {1, 3}, {{1, {25, 0, 0}}}));
}

TEST(FlattenRuleTest, LocalPiecesAreThoseOfTheGlobalTensor) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) { return from + static_cast<int>(random() % (to - from + 1)); };
    Shape64 shape, partition;
    for (int i = 0; i < 4; ++i) {
      shape.push_back(pick(1, 4));
      partition.push_back(pick(0, 2) == 0 ? pick(2, 3) : 1);
    }
    int64_t n = 1;
    for (int64_t parts : partition) n *= parts;
    if (n > 16) continue;
    const Layout x = Cut(shape, partition);
    const auto outcome = Apply("name: 'f' flatten {}", x);
    ASSERT_TRUE(outcome.ok()) << outcome.status() << " ADJOIN_TEST_SEED=" << seed;
    for (int rank : x.mesh().ranks()) {
      // The row-major numbers, in the global tensor, of what the rank holds, moved where it must: before and after.
      const Box box = outcome->input[0].layout.value_or(x).BoxOf(rank);
      std::vector<int64_t> before, after;
      for (int64_t a = box[0].lo; a < box[0].hi; ++a)
        for (int64_t b = box[1].lo; b < box[1].hi; ++b)
          for (int64_t c = box[2].lo; c < box[2].hi; ++c)
            for (int64_t d = box[3].lo; d < box[3].hi; ++d)
              before.push_back(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
      const Box flat = outcome->output.BoxOf(rank);
      for (int64_t a = flat[0].lo; a < flat[0].hi; ++a)
        for (int64_t b = flat[1].lo; b < flat[1].hi; ++b) after.push_back(a * outcome->output.shape()[1] + b);
      EXPECT_EQ(before, after) << "ADJOIN_TEST_SEED=" << seed << " " << x.ToString();
    }
  }
}

TEST(FlattenRuleTest, AnXThatDoesNotFitIsRefusedWithAnAdvice) {
  const auto outcome = Apply("name: 'f' x: 'x' flatten {}", Cut({2, 3, 6, 5}, {1, 1, 2, 2}));
  EXPECT_THAT(ErrorOf(outcome), HasSubstr("cut in dim 2, 3"));
  EXPECT_THAT(ErrorOf(outcome), HasSubstr("partition: [1, 4, 1, 1]"));
  EXPECT_THAT(ErrorOf(Apply("name: 'f' flatten { arg: [2, 1] }", Cut({2, 3, 6}, {1, 1, 1}))), HasSubstr("comes after"));
  EXPECT_THAT(ErrorOf(Apply("name: 'f' flatten { arg: 3 }", Cut({2, 3, 6}, {1, 1, 1}))),
              HasSubstr("-3 to 2 are possible"));
  const auto mesh = Layout::Create({2, 3, 4}, DType::kFloat32, *Mesh::Create({1}), {Placement::Split(2)});
  EXPECT_TRUE(Apply("name: 'f' flatten {}", *mesh).ok());
}

TEST(LinearRuleTest, WeightOverOutAndIn) {
  const auto outcome = Apply("name: 'l' w: 'w' linear { out_features: 7 }", Cut({6, 9}, {1, 3}),
                             "layout { name: 'w' partition: [2, 3] rank: [5, 4, 3, 2, 1, 0] }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->parameter[0].home.LocalShape(5), ElementsAre(4, 3));
  EXPECT_THAT(outcome->parameter[0].home.LocalShape(0), ElementsAre(3, 3));
  EXPECT_EQ(outcome->parameter[0].home, outcome->parameter[0].needed);
  EXPECT_EQ(outcome->parameter[0].fan_in, 9);
  // Ranks 5 and 2 have `in` index 0.
  EXPECT_THAT(outcome->parameter[1].home.mesh().ranks(), ElementsAre(5, 2));
  EXPECT_THAT(outcome->parameter[1].home.LocalShape(2), ElementsAre(3));
  EXPECT_THAT(outcome->input[0].layout->LocalShape(1), ElementsAre(6, 3));
  EXPECT_TRUE(outcome->compute.HasKind(Placement::Kind::kPartial));
  EXPECT_THAT(outcome->output.mesh().ranks(), ElementsAre(5, 2));
  EXPECT_THAT(outcome->output.LocalShape(5), ElementsAre(6, 4));
  EXPECT_EQ(outcome->flops, 2.0 * 6 * 9 * 7);
}

TEST(LinearRuleTest, HomesOfBlocks) {
  const std::string layouts = "layout { name: 'w' partition: [2, 2] }";
  const Layout x = Cut({6, 8}, {1, 2});
  auto owner = Apply("name: 'l' w: 'w' home: OWNER owner: 3 linear { out_features: 5 }", x, layouts);
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_THAT(owner->parameter[1].home.mesh().ranks(), ElementsAre(3));
  auto sharded = Apply("name: 'l' w: 'w' home: SHARDED linear { out_features: 5 }", x, layouts);
  EXPECT_THAT(sharded->parameter[0].home.LocalShape(0), ElementsAre(2, 8));
  EXPECT_THAT(sharded->parameter[1].home.LocalShape(2), ElementsAre(2));
  auto replicated = Apply("name: 'l' w: 'w' home: REPLICATED linear { out_features: 5 }", x, layouts);
  EXPECT_THAT(replicated->parameter[0].home.LocalShape(3), ElementsAre(5, 8));
  EXPECT_THAT(replicated->parameter[1].home.mesh().ranks(), ElementsAre(0, 2));
}

TEST(LinearRuleTest, WholeWeight) {
  const auto outcome = Apply("name: 'l' linear { out_features: 7 bias: false }", Cut({6, 9}, {4, 1}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->output, Cut({6, 7}, {4, 1}));
  EXPECT_EQ(outcome->parameter.size(), 1u);
  EXPECT_EQ(outcome->input[0].layout, Cut({6, 9}, {4, 1}));
  EXPECT_THAT(ErrorOf(Apply("name: 'l' linear {}", Cut({6, 9}, {1, 1}))), HasSubstr("out_features is missing"));
  EXPECT_THAT(ErrorOf(Apply("name: 'l' linear { out_features: 7 }", Cut({6}, {3}))),
              HasSubstr("reads [batch, ..., features]; its input is 6"));
}

TEST(LinearRuleTest, AnyNumberOfLeadingDims) {
  const Layout x = Cut({6, 5, 9}, {1, 2, 3}, {{1, {4, 1}}});
  const auto outcome = Apply("name: 'l' w: 'w' linear { out_features: 7 }", x,
                             "layout { name: 'w' partition: [2, 3] cut { dim: 1 size: [1, 8, 0] } }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->input[0].layout->LocalShape(4), ElementsAre(6, 5, 8));
  EXPECT_THAT(outcome->compute.LocalShape(4), ElementsAre(6, 5, 3));
  EXPECT_THAT(outcome->output.mesh().ranks(), ElementsAre(0, 3));
  EXPECT_EQ(outcome->flops, 2.0 * 30 * 9 * 7);
}

// Without w the weight is cut as x and y are.
TEST(LinearRuleTest, TheWeightFollowsFromTheInputAndTheOutput) {
  const auto rows = Apply("name: 'l' linear { out_features: 7 }", Cut({6, 2, 9}, {2, 1, 3}, {{2, {4, 4, 1}}}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->parameter[0].needed.LocalShape(1), ElementsAre(7, 4));
  EXPECT_THAT(rows->parameter[0].needed.LocalShape(5), ElementsAre(7, 1));
  EXPECT_THAT(rows->parameter[1].needed.mesh().ranks(), ElementsAre(0, 3));
  EXPECT_EQ(rows->compute.placements()[2], Placement::Partial());
  EXPECT_EQ(rows->output, Cut({6, 2, 7}, {2, 1, 3}));

  const std::string mesh = " mesh { size: 2 } mesh { size: 3 } sbp: 'S(0)' sbp: ";
  const Layout x =
      Layout::Create({6, 9}, DType::kFloat32, *Mesh::Create({2, 3}), {Placement::Split(0), Placement::Broadcast()})
          .value();
  const auto columns = Apply("name: 'l' y: 'y' linear { out_features: 7 }", x,
                             "layout { name: 'y'" + mesh + "'S(1)' cut { dim: 1 size: [5, 1, 1] } }");
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(columns->parameter[0].needed.LocalShape(3), ElementsAre(5, 9));
  EXPECT_THAT(columns->parameter[1].needed.LocalShape(2), ElementsAre(1));
  EXPECT_EQ(columns->compute, columns->output);
}

// Axes along which the weight is the same cut the batch, or what the input cuts along them.
TEST(LinearRuleTest, DataAndTensorParallel) {
  const std::string w =
      "layout { name: 'w' mesh { size: 2 } mesh { size: 2 } mesh { size: 2 } sbp: 'B' sbp: 'S(0)'"
      " sbp: 'S(1)' }";
  const std::string layer = "name: 'l' w: 'w' linear { out_features: 6 }";
  const auto elsewhere = Apply(layer, Cut({4, 3, 10}, {1, 1, 2}), w);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_THAT(elsewhere->input[0].layout->LocalShape(7), ElementsAre(2, 3, 5));
  EXPECT_THAT(elsewhere->parameter[0].home.LocalShape(7), ElementsAre(3, 5));
  EXPECT_THAT(elsewhere->parameter[1].home.mesh().ranks(), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(elsewhere->output.mesh().ranks(), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(elsewhere->output.LocalShape(6), ElementsAre(2, 3, 3));
  const Layout x = Layout::Create({4, 3, 10}, DType::kFloat32, *Mesh::Create({2, 2, 2}),
                                  {Placement::Split(1), Placement::Broadcast(), Placement::Split(2)})
                       .value();
  const auto here = Apply(layer, x, w);
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(here->input[0].layout, x);
  EXPECT_THAT(here->compute.LocalShape(7), ElementsAre(4, 1, 3));
  // The batch keeps its uneven cuts.
  const auto uneven = Apply(layer, Cut({4, 3, 10}, {2, 1, 1}, {{0, {3, 1}}}), w);
  ASSERT_TRUE(uneven.ok()) << uneven.status();
  EXPECT_THAT(uneven->compute.LocalShape(0), ElementsAre(3, 3, 3));
}

TEST(RegistryTest, AUserAddsARuleOnce) {
  const LayerRule same = [](const LayerRequest& request) -> absl::StatusOr<LayerOutcome> {
    return LayerOutcome{
        .spec = request.spec, .input = {InputNeed{}}, .compute = request.input[0], .output = request.input[0]};
  };
  LayerRules rules;
  ASSERT_TRUE(AddBuiltinLayerRules(rules).ok());
  EXPECT_TRUE(rules.Register("same", same).ok());
  EXPECT_EQ(rules.Register("same", same).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(rules.Kinds(), testing::IsSupersetOf({"activation", "conv", "same", "upsample"}));
  EXPECT_THAT(rules.Kinds(), testing::WhenSorted(testing::ElementsAreArray(rules.Kinds())));
  EXPECT_EQ(rules.Find("drop"), nullptr);
}

}  // namespace
}  // namespace adjoin
