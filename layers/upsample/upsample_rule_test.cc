// The rule of upsampling: sizes, layouts and boxes against numbers worked out by hand, and what is refused.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/builtin/rule_fixture.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_proto.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/interpolation.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Shape64 = std::vector<int64_t>;

absl::StatusOr<LayerOutcome> Apply(const std::string& op, const Layout& x, const std::string& layouts = "") {
  return ApplyRule(absl::StrCat(layouts.empty() ? "" : "y: 'y' ", "upsample { ", op, " }"), {x}, layouts);
}

std::string ErrorOf(const std::string& op, const Shape64& shape) {
  return std::string(Apply(op, Cut(shape, Shape64(shape.size(), 1))).status().message());
}

TEST(UpsampleRuleTest, SizesByScaleAndBySize) {
  const auto scaled = Apply("mode: 'bilinear' scale: 2.5", Cut({2, 3, 5, 7}, {1, 1, 1, 1}));
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_THAT(scaled->output.shape(), ElementsAre(2, 3, 12, 17));
  EXPECT_THAT(scaled->spec.upsample().scale(), ElementsAre(2.5, 2.5));
  EXPECT_EQ(scaled->flops, 2.0 * 2 * 2 * 3 * 12 * 7 + 2.0 * 2 * 2 * 3 * 12 * 17);
  const auto sized = Apply("mode: 'nearest' size: [4, 5, 6]", Cut({2, 3, 5, 7, 6}, {1, 1, 1, 1, 1}));
  ASSERT_TRUE(sized.ok()) << sized.status();
  EXPECT_THAT(sized->output.shape(), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(sized->spec.upsample().size(), ElementsAre(4, 5, 6));
  EXPECT_EQ(sized->flops, 0);
  EXPECT_TRUE(sized->parameter.empty());
}

TEST(UpsampleRuleTest, SpatialCutsAreEvenAndTheOthersAsTheInputs) {
  const Layout x = Cut({5, 4, 6}, {2, 2, 3}, {{0, {1, 4}}, {1, {0, 4}}, {2, {6, 0, 0}}});
  const auto outcome = Apply("mode: 'linear' size: 11", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->output.Boundaries(0), ElementsAre(0, 1, 5));
  EXPECT_THAT(outcome->output.Boundaries(1), ElementsAre(0, 0, 4));
  EXPECT_THAT(outcome->output.Boundaries(2), ElementsAre(0, 4, 8, 11));
  EXPECT_EQ(outcome->compute, outcome->output);
  EXPECT_EQ(outcome->input[0].readings.at(2).ToString(), "linear 6 to 11");
}

TEST(UpsampleRuleTest, YOfTheSameMeshIsComputedInPlaceAndOthersAreMovedTo) {
  const Layout x = Cut({4, 2, 6}, {1, 1, 3});
  const std::string op = "mode: 'linear' scale: 2";
  const auto same = Apply(op, x, "layout { name: 'y' partition: [1, 1, 3] cut { dim: 2 size: [7, 0, 5] } }");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->compute.Boundaries(2), ElementsAre(0, 7, 7, 12));
  EXPECT_EQ(same->compute, same->output);
  const auto other = Apply(op, x, "layout { name: 'y' partition: [1, 2, 1] }");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->compute.mesh(), x.mesh());
  EXPECT_EQ(other->output.Parts(1), 2);
}

// The mode "area" is laid out and read as adaptive pooling, and stays an upsampling in the plan.
TEST(UpsampleRuleTest, AreaIsAdaptivePooling) {
  const Layout x = Cut({2, 4, 6, 8}, {1, 2, 1, 2});
  const auto outcome = Apply("mode: 'area' size: [4, 12]", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto pool = ApplyRule("pool { mode: 'avg' adaptive_size: [4, 12] }", {x});
  EXPECT_EQ(outcome->output, pool->output);
  EXPECT_EQ(outcome->input[0].readings.at(3).ToString(), "adaptive 12");
  EXPECT_EQ(outcome->flops, pool->flops);
  EXPECT_FALSE(outcome->spec.has_pool());
  EXPECT_THAT(outcome->spec.upsample().size(), ElementsAre(4, 12));
  const auto scaled = Apply("mode: 'area' scale: [0.5, 1.3]", x);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_THAT(scaled->output.shape(), ElementsAre(2, 4, 3, 10));
  EXPECT_THAT(scaled->spec.upsample().scale(), ElementsAre(0.5, 1.3));
  // One output of a cut dim is a sum over its parts.
  EXPECT_TRUE(Apply("mode: 'area' size: 1", x)->compute.HasKind(Placement::Kind::kPartial));
}

TEST(UpsampleRuleTest, OneClearErrorEach) {
  const Shape64 image = {2, 3, 5, 7};
  EXPECT_THAT(ErrorOf("scale: 2", image), HasSubstr("mode is missing"));
  EXPECT_THAT(ErrorOf("mode: 'cubic' scale: 2", image), HasSubstr("\"cubic\" is not known; write \"nearest\""));
  for (const char* mode : {"nearest", "nearest-exact", "area"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("mode: '", mode, "' align_corners: true scale: 2"), image),
                HasSubstr(absl::StrCat("upsample.align_corners says nothing for mode \"", mode, "\"")));
  }
  EXPECT_THAT(ErrorOf("mode: 'area'", image), HasSubstr("either size or scale"));
  EXPECT_THAT(ErrorOf("mode: 'area' size: 0", image), HasSubstr("must be at least 1"));
  EXPECT_THAT(ErrorOf("mode: 'area' size: 4194304", {1 << 20, 3, 5, 7}), HasSubstr("2^46"));
  EXPECT_THAT(ErrorOf("mode: 'area' size: 4", {2, 3}), HasSubstr("1 to 3 spatial dims"));
  EXPECT_THAT(ErrorOf("mode: 'linear' scale: 2", image), HasSubstr("for 1 spatial dim, but its input has 2"));
  EXPECT_THAT(ErrorOf("mode: 'bicubic' scale: 2", {2, 3, 5}), HasSubstr("for 2 spatial dims, but its input has 1"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: 2 align_corners: true", image), HasSubstr("leave it out"));
  EXPECT_THAT(ErrorOf("mode: 'nearest'", image), HasSubstr("either size or scale; write"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' size: 4 scale: 2", image), HasSubstr("either size or scale, not both"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' size: [4, 4, 4]", image), HasSubstr("has 3 values; write one"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' size: [4, 0]", image), HasSubstr("size is 0"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: -2", image), HasSubstr("scale of -2; it must be a positive number"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: nan", image), HasSubstr("must be a positive number"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: inf", image), HasSubstr("must be a positive number"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: 0.15", image), HasSubstr("makes 0 outputs of 5 inputs"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: 1e300", image), HasSubstr("at most 2^56"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' size: 1000000000", {2, 3, 5, 5}), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: 2", {2, 3}), HasSubstr("1 to 3 spatial dims"));
  EXPECT_THAT(ErrorOf("mode: 'nearest' scale: 2", {2, 3, 0}), HasSubstr("no elements"));
}

absl::StatusOr<Plan> PlanOf(const std::string& op) {
  const std::string text =
      JobText(2,
              "layout { name: 'rows' partition: [1,1,2,1] } layout { name: 'one' partition: [1,1,1,1] }\n"
              "layer { name: 'c' input: 'image' x: 'rows' conv { out_channels: 1 window { kernel: 1 } } }\n"
              "layer { name: 'up' upsample { " +
                  op +
                  " } }\n"
                  "layer { name: 'all' y: 'one' repartition {} } layer { name: 'f' flatten {} }\n"
                  "layer { name: 'fc' linear { out_features: 2 } }",
              "[1, 4, 3]", "fc");
  const ParsedSpec parsed = ParseSpec(text, "job.textproto").value();
  return Planner::Build(parsed.spec, {{"train", 8}}, BuiltinLayerRules(), &parsed.locations);
}

TEST(UpsampleRuleTest, ThePlanCarriesTheInterpolationAndItsBytes) {
  const auto plan = PlanOf("mode: 'bilinear' scale: 2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const LayerPlan& layer = plan->program(0).layer(1);
  ASSERT_EQ(layer.op_size(), 1);
  EXPECT_EQ(layer.op(0).role(), "x");
  const OperatorPlan& op = plan->program(0).op(layer.op(0).index());
  ASSERT_EQ(op.reading_size(), 2);
  EXPECT_EQ(op.algorithm(), "halo exchange");
  // Rows 0 to 3 of the outputs read rows 0 to 2, one of them the other rank's: 8 samples of 3 float32.
  EXPECT_THAT(op.bytes_forward(), ElementsAre(8 * 3 * 4, 8 * 3 * 4));
  EXPECT_THAT(op.bytes_adjoint(), ElementsAre(8 * 3 * 4, 8 * 3 * 4));
  const OperatorEnds ends = DistributionsOf(op).value();
  EXPECT_THAT(ends.to.View(1).shape, ElementsAre(8, 1, 3, 3));
  ASSERT_EQ(layer.halo_size(), 1);
  EXPECT_THAT(layer.halo(0).left(), ElementsAre(0, 1));
  EXPECT_THAT(layer.halo(0).right(), ElementsAre(1, 0));
  // Nothing moves where every dim is copied.
  EXPECT_EQ(PlanOf("mode: 'bicubic' size: [4, 3]")->program(0).layer(1).op_size(), 0);
}

TEST(UpsampleRuleTest, ErrorsOfASpecNameThePlace) {
  EXPECT_THAT(std::string(PlanOf("mode: 'bilinear' scale: -1").status().message()), StartsWith("job.textproto:4:"));
  EXPECT_THAT(std::string(PlanOf("mode: 'trilinear' scale: 2").status().message()), HasSubstr("layer 1 \"up\""));
}

}  // namespace
}  // namespace adjoin
