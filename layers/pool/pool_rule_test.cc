// The rules of pooling, padding and cropping alone: shapes, layouts, what is read, against numbers worked out by hand.
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/builtin/rule_fixture.h"
#include "layers/rules/layer_rule.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Shape64 = std::vector<int64_t>;

absl::StatusOr<LayerOutcome> Apply(const std::string& text, const Layout& x, const std::string& layouts = "") {
  return ApplyRule(text, {x}, layouts);
}

std::string ErrorOf(const std::string& text, const Shape64& shape) {
  return adjoin::ErrorOf(Apply(text, Cut(shape, Shape64(shape.size(), 1))));
}

TEST(PoolRuleTest, StrideIsTheKernelAndCeilModeCounts) {
  const Layout x = Cut({2, 3, 11}, {1, 1, 2});
  const auto max = Apply("pool { mode: 'max' window { kernel: 2 } }", x);
  ASSERT_TRUE(max.ok()) << max.status();
  EXPECT_THAT(max->output.shape(), ElementsAre(2, 3, 5));
  EXPECT_EQ(max->input[0].fill, -std::numeric_limits<double>::infinity());
  const auto avg = Apply("pool { mode: 'avg' ceil_mode: true window { kernel: 2 } }", x);
  ASSERT_TRUE(avg.ok()) << avg.status();
  EXPECT_THAT(avg->output.shape(), ElementsAre(2, 3, 6));
  EXPECT_EQ(avg->input[0].fill, 0);
  EXPECT_TRUE(avg->spec.pool().count_include_pad());
  EXPECT_EQ(avg->flops, 2 * 3 * 6 * 2);
  // One window larger than the input, rounded up.
  EXPECT_THAT(Apply("pool { mode: 'max' ceil_mode: true window { kernel: 12 } }", x)->output.shape(),
              ElementsAre(2, 3, 1));
}

TEST(PoolRuleTest, AnyDimMayBeCut) {
  const Layout x = Cut({5, 4, 9}, {2, 3, 2}, {{0, {1, 4}}, {1, {0, 3, 1}}, {2, {9, 0}}});
  const auto outcome = Apply("pool { mode: 'lp' lp: 2 window { kernel: 3 stride: 2 } }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->output.Boundaries(0), ElementsAre(0, 1, 5));
  EXPECT_THAT(outcome->output.Boundaries(1), ElementsAre(0, 0, 3, 4));
  EXPECT_THAT(outcome->output.Boundaries(2), ElementsAre(0, 2, 4));
  EXPECT_EQ(outcome->compute, outcome->output);
}

TEST(PoolRuleTest, AdaptiveSizes) {
  const auto outcome = Apply("pool { mode: 'avg' adaptive_size: [3, -1] }", Cut({2, 3, 7, 5}, {1, 1, 2, 2}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->output.shape(), ElementsAre(2, 3, 3, 5));
  EXPECT_THAT(outcome->spec.pool().adaptive_size(), ElementsAre(3, 5));
  EXPECT_EQ(outcome->input[0].readings.at(2).ToString(), "adaptive 3");
}

TEST(PoolRuleTest, AnAverageOfAllOfACutDimIsASumOverItsRanks) {
  const Layout x = Cut({4, 3, 7, 6}, {2, 1, 3, 1}, {{2, {0, 5, 2}}});
  const auto outcome = Apply("pool { mode: 'avg' adaptive_size: [1, 2] }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->compute.placements()[2], Placement::Partial());
  EXPECT_EQ(outcome->output.placements()[2], Placement::Broadcast());
  EXPECT_THAT(outcome->output.shape(), ElementsAre(4, 3, 1, 2));
  EXPECT_EQ(outcome->output.Parts(0), 2);
  // Nothing is fetched in the summed dim.
  EXPECT_EQ(outcome->input[0].readings.count(2), 0u);
  EXPECT_THAT(outcome->input[0].reader->Boundaries(2), ElementsAre(0, 0, 5, 7));
  EXPECT_EQ(outcome->input[0].reader->shape()[3], 2);
}

TEST(PoolRuleTest, AMaximumOfAllOfACutDimIsChosenFromThoseOfItsParts) {
  const auto outcome = Apply("pool { mode: 'max' return_indices: true adaptive_size: 1 }",
                             Cut({4, 3, 7, 6}, {1, 1, 3, 2}, {{2, {3, 0, 4}}}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(outcome->movement.size(), 2u);
  EXPECT_EQ(outcome->movement[0].role, "largest");
  EXPECT_THAT(outcome->movement[0].from.shape(), ElementsAre(4, 3, 2, 2));
  EXPECT_THAT(outcome->movement[0].from.Boundaries(2), ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(outcome->movement[0].to.placements()[2], Placement::Broadcast());
  EXPECT_EQ(outcome->movement[1].from.dtype(), DType::kInt64);
  EXPECT_TRUE(outcome->input[0].readings.empty());
  EXPECT_EQ(outcome->output.placements()[3], Placement::Broadcast());
  EXPECT_EQ(outcome->output.dtype(), DType::kInt64);
  EXPECT_EQ(outcome->input[0].reader->dtype(), DType::kFloat32);
}

TEST(PoolRuleTest, YOfTheSameMeshIsComputedInPlaceAndOthersAreMovedTo) {
  const Layout x = Cut({4, 2, 12}, {1, 1, 3});
  const std::string op = "y: 'y' pool { mode: 'max' window { kernel: 2 } }";
  const auto same = Apply(op, x, "layout { name: 'y' partition: [1, 1, 3] cut { dim: 2 size: [4, 0, 2] } }");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->compute.Boundaries(2), ElementsAre(0, 4, 4, 6));
  EXPECT_EQ(same->compute, same->output);
  const auto other = Apply(op, x, "layout { name: 'y' partition: [1, 2, 1] }");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->compute.mesh(), x.mesh());
  EXPECT_EQ(other->output.Parts(1), 2);
}

TEST(PoolRuleTest, OneClearErrorEach) {
  const Shape64 image = {2, 3, 5, 7};
  const auto error = [&](const std::string& text) { return ErrorOf("pool { " + text + " }", image); };
  EXPECT_THAT(error("mode: 'mean' window { kernel: 3 }"), HasSubstr("not known; write \"max\""));
  EXPECT_THAT(error("mode: 'max'"), HasSubstr("kernel is missing"));
  EXPECT_THAT(error("mode: 'max' window { kernel: 3 pad_lo: 2 }"), HasSubstr("half of its kernel"));
  EXPECT_THAT(error("mode: 'avg' window { kernel: 3 dilation: 2 }"), HasSubstr("dilation 2 is for mode \"max\""));
  EXPECT_THAT(error("mode: 'avg' window { kernel: 3 boundary: 'reflect' }"), HasSubstr("is for convolutions"));
  EXPECT_THAT(error("mode: 'avg' return_indices: true window { kernel: 3 }"), HasSubstr("is for mode \"max\""));
  EXPECT_THAT(error("mode: 'avg' divisor_override: 0 window { kernel: 3 }"), HasSubstr("nothing can be divided"));
  EXPECT_THAT(error("mode: 'max' divisor_override: 2 window { kernel: 3 }"), HasSubstr("is for mode \"avg\""));
  EXPECT_THAT(error("mode: 'max' count_include_pad: true window { kernel: 3 }"), HasSubstr("is for mode \"avg\""));
  EXPECT_THAT(error("mode: 'lp' window { kernel: 3 }"), HasSubstr("as in lp: 2"));
  EXPECT_THAT(error("mode: 'lp' lp: inf window { kernel: 3 }"), HasSubstr("finite number above 0"));
  EXPECT_THAT(error("mode: 'lp' lp: 2 window { kernel: 3 pad_lo: 1 }"), HasSubstr("put a pad layer before"));
  EXPECT_THAT(error("mode: 'max' lp: 2 window { kernel: 3 }"), HasSubstr("is for mode \"lp\""));
  EXPECT_THAT(error("mode: 'lp' lp: 2 adaptive_size: 2"), HasSubstr("is for \"max\" and \"avg\""));
  EXPECT_THAT(error("mode: 'max' adaptive_size: 2 window { kernel: 3 }"), HasSubstr("leave it out"));
  EXPECT_THAT(error("mode: 'avg' adaptive_size: 2 ceil_mode: true"), HasSubstr("pool.ceil_mode is for a window"));
  EXPECT_THAT(error("mode: 'avg' adaptive_size: 0"), HasSubstr("at least 1, or -1"));
  EXPECT_THAT(error("mode: 'avg' window { kernel: 3 padding: 'same' }"),
              HasSubstr("padding \"same\" is for convolutions; a pooling has pad_lo and pad_hi"));
  EXPECT_THAT(error("mode: 'avg' adaptive_size: [1, 2, 3]"), HasSubstr("has 3 values; write one"));
  EXPECT_THAT(error("mode: 'avg' adaptive_size: 1000000000"), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf("pool { mode: 'avg' adaptive_size: 2 }", {2, 3}), HasSubstr("1 to 3 spatial dims"));
  EXPECT_THAT(ErrorOf("pool { mode: 'avg' adaptive_size: 2 }", {2, 3, 0}), HasSubstr("no elements"));
}

TEST(PoolRuleTest, TheHeadOfAResidualNetworkPlansWithoutARepartition) {
  const std::string text =
      JobText(4,
              "layout { name: 'grid' partition: [1,1,2,2] }\n"
              "layer { name: 'c' input: 'image' x: 'grid' conv { out_channels: 16 window { kernel: 3 } } }\n"
              "layer { name: 'gap' pool { mode: 'avg' adaptive_size: 1 } }\n"
              "layer { name: 'f' flatten {} }\n"
              "layer { name: 'fc' linear { out_features: 10 } }",
              "[3, 34, 34]", "fc");
  const ParsedSpec parsed = ParseSpec(text, "job.textproto").value();
  const auto plan = Planner::Build(parsed.spec, {{"train", 8}}, BuiltinLayerRules(), &parsed.locations);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const LayerPlan& layer = plan->program(0).layer(1);
  ASSERT_EQ(layer.op_size(), 1);
  EXPECT_EQ(layer.op(0).role(), "y");
  // One number per sample and channel, not an image.
  const OperatorPlan& op = plan->program(0).op(layer.op(0).index());
  EXPECT_THAT(op.algorithm(), HasSubstr("all-sum-reduce"));
  EXPECT_LE(op.bytes_forward(0), 3 * 8 * 16 * 4);
  EXPECT_EQ(plan->program(0).layer(2).op_size(), 0);
}

TEST(CropPadRuleTest, PairsFromTheLastDimOn) {
  const Layout x = Cut({5, 4, 9}, {2, 1, 3}, {{0, {1, 4}}, {2, {9, 0, 0}}});
  const auto pad = Apply("pad { arg: [1, 2, -3, 0] }", x);
  ASSERT_TRUE(pad.ok()) << pad.status();
  EXPECT_THAT(pad->output.shape(), ElementsAre(5, 1, 12));
  EXPECT_THAT(pad->output.Boundaries(0), ElementsAre(0, 1, 5));
  EXPECT_THAT(pad->output.Boundaries(2), ElementsAre(0, 4, 8, 12));
  EXPECT_EQ(pad->input[0].fill, 0);
  const auto crop = Apply("crop { arg: [1, 2, -3, 0, 2, 2] }", x);
  ASSERT_TRUE(crop.ok()) << crop.status();
  EXPECT_THAT(crop->output.shape(), ElementsAre(1, 7, 6));
  EXPECT_THAT(crop->output.Boundaries(0), ElementsAre(0, 1, 1));
  // Dims that stay are not read anew.
  const auto nothing = Apply("pad { arg: [0, 0, 0, 0] }", x);
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(nothing->output, x);
  EXPECT_TRUE(nothing->input[0].readings.empty());
}

TEST(CropPadRuleTest, OneClearErrorEach) {
  EXPECT_THAT(ErrorOf("pad {}", {2, 3}), HasSubstr("arg has 0 values; write a pair"));
  EXPECT_THAT(ErrorOf("pad { arg: [1, 1, 1] }", {2, 3}), HasSubstr("arg has 3 values"));
  EXPECT_THAT(ErrorOf("pad { arg: [1, 1, 1, 1, 1, 1] }", {2, 3}), HasSubstr("at most 2 dims"));
  EXPECT_THAT(ErrorOf("crop { arg: [1, 2] }", {2, 3}), HasSubstr("dim 1 has 3 elements"));
  EXPECT_THAT(ErrorOf("pad { arg: [-4, 5] }", {2, 3}), HasSubstr("more be taken away"));
  EXPECT_THAT(ErrorOf("crop { arg: [-9223372036854775808, 0] }", {2, 3}), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf("home: OWNER pad { arg: [1, 1] }", {2, 3}), HasSubstr("it has none"));
}

}  // namespace
}  // namespace adjoin
