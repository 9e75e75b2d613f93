// The rule of group, instance, layer and RMS norm: layouts of weights and of the sums, and what is refused.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/rule_fixture.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<LayerOutcome> Apply(const std::string& text, const Layout& x) {
  return ApplyRule(text, {x}, /*job=*/"", /*training=*/true);
}

TEST(NormRuleTest, DefaultsArePyTorchs) {
  const auto norm = [&](const std::string& text, DType dtype = DType::kFloat32) {
    const auto outcome = Apply(absl::StrCat("norm { kind: '", text, " }"), Cut({4, 6, 8}, {1, 1, 1}).WithDType(dtype));
    EXPECT_TRUE(outcome.ok()) << text << ": " << outcome.status();
    return outcome->spec.norm();
  };
  EXPECT_EQ(norm("layer'").eps(), 1e-5);
  EXPECT_THAT(norm("layer'").dim(), ElementsAre(2));
  EXPECT_THAT(norm("layer' dim: [-1, 1]").dim(), ElementsAre(1, 2));
  EXPECT_TRUE(norm("layer'").affine());
  EXPECT_TRUE(norm("group' groups: 3").affine());
  EXPECT_FALSE(norm("instance'").affine());
  EXPECT_EQ(norm("rms'").eps(), 1.1920928955078125e-07) << "torch.finfo(torch.float32).eps";
  EXPECT_EQ(norm("rms'", DType::kFloat64).eps(), 2.220446049250313e-16);
  EXPECT_EQ(norm("rms' eps: 0").eps(), 0);
}

TEST(NormRuleTest, WeightsAreCutAsWhatTheyScale) {
  const auto layer = Apply("norm { kind: 'layer' dim: [1, 2] }", Cut({4, 6, 9}, {2, 1, 2}, {{2, {7, 2}}}));
  ASSERT_TRUE(layer.ok()) << layer.status();
  ASSERT_EQ(layer->parameter.size(), 2u);
  EXPECT_THAT(layer->parameter[0].home.shape(), ElementsAre(6, 9));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(layer->parameter[1].needed.LocalShape(rank), ElementsAre(6, rank % 2 == 0 ? 7 : 2));
  }
  const auto group = Apply("norm { kind: 'group' groups: 2 }", Cut({4, 6, 9}, {1, 2, 2}, {{1, {4, 2}}}));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_THAT(group->parameter[0].needed.LocalShape(1), ElementsAre(4));
  EXPECT_THAT(group->parameter[0].needed.LocalShape(2), ElementsAre(2));
  EXPECT_EQ(group->parameter[0].initial, 1.0);
  EXPECT_EQ(group->parameter[1].initial, 0.0);
  const auto rms = Apply("norm { kind: 'rms' }", Cut({4, 6}, {1, 2}));
  ASSERT_TRUE(rms.ok()) << rms.status();
  ASSERT_EQ(rms->parameter.size(), 1u);
  EXPECT_EQ(rms->parameter[0].role, "weight");
}

TEST(NormRuleTest, OnlyACutThroughWhatIsNormalisedTogetherMovesSums) {
  const auto moved = [](const std::string& norm, const Layout& x) {
    const auto outcome = Apply("norm { " + norm + " }", x);
    EXPECT_TRUE(outcome.ok()) << norm << ": " << outcome.status();
    return RolesOf(outcome->movement);
  };
  EXPECT_THAT(moved("kind: 'layer'", Cut({4, 6, 8}, {2, 3, 1})), IsEmpty());
  EXPECT_THAT(moved("kind: 'layer'", Cut({4, 6, 8}, {1, 1, 2})), ElementsAre("mean", "deviations"));
  EXPECT_THAT(moved("kind: 'rms'", Cut({4, 6, 8}, {1, 1, 2})), ElementsAre("deviations"));
  EXPECT_THAT(moved("kind: 'group' groups: 3", Cut({4, 6, 8}, {2, 3, 1})), IsEmpty());
  EXPECT_THAT(moved("kind: 'group' groups: 3", Cut({4, 6, 8}, {1, 2, 1})), ElementsAre("mean", "deviations"));
  EXPECT_THAT(moved("kind: 'group' groups: 3", Cut({4, 6, 8}, {1, 1, 2})), ElementsAre("mean", "deviations"));
  EXPECT_THAT(moved("kind: 'instance'", Cut({4, 6, 8}, {1, 4, 1})), IsEmpty());
  EXPECT_THAT(moved("kind: 'instance'", Cut({4, 6, 8}, {1, 2, 2})), ElementsAre("mean", "deviations"));
}

TEST(NormRuleTest, SumsAreOfEachSetInFloat64) {
  const auto group = Apply("norm { kind: 'group' groups: 3 }", Cut({4, 6, 8}, {1, 3, 2}));
  ASSERT_TRUE(group.ok()) << group.status();
  const Layout& sums = group->movement[0].from;
  EXPECT_EQ(sums.dtype(), DType::kFloat64);
  EXPECT_THAT(sums.shape(), ElementsAre(4, 3));
  EXPECT_THAT(sums.LocalShape(0), ElementsAre(4, 1)) << "each of the channels' cuts is between two groups";
  const auto layer = Apply("norm { kind: 'layer' }", Cut({4, 6, 8}, {1, 2, 2}));
  ASSERT_TRUE(layer.ok()) << layer.status();
  EXPECT_THAT(layer->movement[1].to.LocalShape(3), ElementsAre(4, 3, 1));
}

// `field`: below the layer.
void ExpectRefused(const std::string& layer, const std::vector<int64_t>& shape, const std::string& field,
                   const std::string& message) {
  const auto outcome = Apply(layer, Cut(shape, std::vector<int64_t>(shape.size(), 1)));
  ASSERT_FALSE(outcome.ok()) << layer;
  EXPECT_EQ(FieldOf(outcome.status()), field) << layer;
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr(message)) << layer;
}

TEST(NormRuleTest, BadSpecsAreRefusedByName) {
  ExpectRefused("norm { kind: 'group' }", {2, 6}, "norm.groups", "norm.groups is missing; it must be at least 1");
  ExpectRefused("norm { kind: 'group' groups: 4 }", {2, 6}, "norm.groups", "does not divide the input's 6 channels");
  ExpectRefused("norm { kind: 'layer' groups: 2 }", {2, 6}, "norm.groups", "norm.groups is for kind \"group\"");
  ExpectRefused("norm { kind: 'layer' momentum: 0.1 }", {2, 6}, "norm.momentum", "for the running statistics");
  ExpectRefused("norm { kind: 'layer' eps: nan }", {2, 6}, "norm.eps", "norm.eps is nan; it must be a finite number");
  ExpectRefused("norm { kind: 'layer' dim: 0 }", {2, 6}, "norm.dim[0]", "dim 0 is the batch");
  ExpectRefused("norm { kind: 'layer' dim: 3 }", {2, 6}, "norm.dim[0]", "dim 3 of an input of 2 dims");
  ExpectRefused("norm { kind: 'layer' dim: [1, -1] }", {2, 6}, "norm.dim[1]", "dim -1 is named twice");
  ExpectRefused("norm { kind: 'rms' dim: 1 }", {2, 6, 4}, "norm.dim[0]", "must name all from dim 1 to 2");
  ExpectRefused("norm { kind: 'instance' }", {2, 6}, "input", "[batch, channels, one more dim or more]");
  ExpectRefused("norm { kind: 'instance' }", {2, 6, 1}, "input", "more than one element per channel of a sample");
  ExpectRefused("norm { kind: 'layer' }", {6}, "input", "[batch, one more dim or more]; its input is 6");
  ExpectRefused("w: 'x' norm { kind: 'layer' }", {2, 6}, "w", "w is for a weight that is cut otherwise");
}

}  // namespace
}  // namespace adjoin
