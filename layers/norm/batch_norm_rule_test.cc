// The rule of batch normalisation: layouts of what is kept per channel and of the sums, and what is refused.
#include "layers/norm/batch_norm_rule.h"
#include "layers/builtin/rule_fixture.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_rule.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<LayerOutcome> Apply(const std::string& text, const Layout& x, bool training = true) {
  return ApplyRule(text, {x}, /*job=*/"", training);
}

TEST(BatchNormRuleTest, WhatIsKeptPerChannelIsCutAsTheChannels) {
  const Layout x = *Layout::Partition({4, 7, 6}, DType::kFloat32, {1, 2, 3}, {0, 1, 2, 3, 4, 5}, {{1, {5, 2}}});
  auto outcome = Apply("norm { kind: 'batch' }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->compute, x);
  EXPECT_EQ(outcome->output, x);
  EXPECT_EQ(outcome->spec.norm().eps(), 1e-5);
  EXPECT_EQ(outcome->spec.norm().momentum(), 0.1);
  EXPECT_TRUE(outcome->spec.norm().affine());
  EXPECT_EQ(outcome->flops, 6.0 * 4 * 7 * 6);
  std::vector<std::string> roles;
  for (const ParameterNeed& need : outcome->parameter) roles.push_back(need.role);
  EXPECT_THAT(roles, ElementsAre("weight", "bias", "running_mean", "running_var", "num_batches_tracked"));
  for (int i = 0; i < 4; ++i) {
    const ParameterNeed& need = outcome->parameter[i];
    EXPECT_EQ(need.home, need.needed);
    EXPECT_EQ(need.buffer, i >= 2);
    EXPECT_EQ(need.initial, i % 3 == 0 ? 1.0 : 0.0) << need.role;
    EXPECT_THAT(need.home.LocalShape(2), ElementsAre(5));
    EXPECT_THAT(need.home.LocalShape(3), ElementsAre(2));
  }
  EXPECT_EQ(outcome->parameter[4].home.dtype(), DType::kInt64);
  EXPECT_THAT(outcome->parameter[4].home.shape(), IsEmpty());
}

TEST(BatchNormRuleTest, OneMovementPerPassInFloat64) {
  const Layout x = *Layout::Partition({4, 7, 6}, DType::kFloat32, {1, 2, 3}, {0, 1, 2, 3, 4, 5}, {{1, {5, 2}}});
  auto outcome = Apply("norm { kind: 'batch' affine: false }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->parameter.size(), 3u);
  ASSERT_EQ(outcome->movement.size(), 1u);
  const MovementNeed& need = outcome->movement[0];
  EXPECT_EQ(need.role, "statistics");
  EXPECT_EQ(need.from.dtype(), DType::kFloat64);
  EXPECT_EQ(need.from.mesh(), x.mesh());
  EXPECT_EQ(need.to.mesh(), x.mesh());
  EXPECT_THAT(need.from.shape(), ElementsAre(3, 3, 7));
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_THAT(need.from.LocalShape(rank), ElementsAre(1, 3, rank < 3 ? 5 : 2));
    EXPECT_THAT(need.to.LocalShape(rank), ElementsAre(3, 3, rank < 3 ? 5 : 2));
  }
  auto evaluation = Apply("norm { kind: 'batch' }", x, /*training=*/false);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_TRUE(evaluation->movement.empty());
  EXPECT_EQ(evaluation->flops, 3.0 * 4 * 7 * 6);
}

TEST(BatchNormRuleTest, CopiesOfTheInputCountOnce) {
  const Layout x =
      *Layout::Create({4, 6}, DType::kFloat32, *Mesh::Create({2, 3}), {Placement::Broadcast(), Placement::Split(0)});
  auto outcome = Apply("norm { kind: 'batch' }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(outcome->movement.size(), 1u);
  EXPECT_THAT(outcome->movement[0].from.shape(), ElementsAre(3, 3, 6));
  EXPECT_EQ(outcome->movement[0].from.placements()[0], Placement::Broadcast());
  EXPECT_FALSE(outcome->movement[0].to.HasKind(Placement::Kind::kSplit));
}

TEST(BatchNormRuleTest, Homes) {
  const Layout x = *Layout::Partition({4, 6}, DType::kFloat32, {2, 2}, {3, 4, 5, 6});
  auto owner = Apply("home: OWNER owner: 5 norm { kind: 'batch' }", x);
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_THAT(owner->parameter[0].home.mesh().ranks(), ElementsAre(5));
  EXPECT_EQ(owner->parameter[2].home, owner->parameter[0].needed) << "running statistics are where they are used";
}

// A job of one layer "n" and the line that it must be refused with.
void ExpectRefused(const std::string& norm, const std::string& shape, const std::string& message) {
  const std::string network =
      absl::StrCat("layout { name: \"b\" partition: [2, 1] }\n", "layer { name: \"n\" input: \"image\" x: \"b\" ", norm,
                   " }\n", "layer { name: \"fc\" linear { out_features: 3 } }");
  const auto parsed = ParseSpec(JobText(2, network, shape, "fc"), "job.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto plan = Planner::Build(parsed->spec, {}, BuiltinLayerRules(), &parsed->locations);
  ASSERT_FALSE(plan.ok()) << norm;
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("layer 0 \"n\": " + message)) << norm;
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("job.textproto:3:"));
}

TEST(BatchNormRuleTest, BadSpecsAreRefusedByName) {
  ExpectRefused("norm {}", "[4]", "norm.kind \"\" is not known; write one of batch, group, instance, layer, rms");
  ExpectRefused("norm { kind: \"batch\" groups: 2 }", "[4]", "norm.groups is for kind \"group\"");
  ExpectRefused("norm { kind: \"batch\" dim: 1 }", "[4]", "norm.dim is for kinds \"layer\" and \"rms\"");
  ExpectRefused("norm { kind: \"batch\" eps: -1 }", "[4]", "norm.eps is -1; it must be");
  ExpectRefused("norm { kind: \"batch\" momentum: nan }", "[4]", "norm.momentum is nan; it must be from 0 to 1");
  ExpectRefused("w: \"b\" norm { kind: \"batch\" }", "[4]", "w is for a weight that is cut otherwise");
  ExpectRefused("home: OWNER norm { kind: \"batch\" affine: false }", "[4]", "home is for a layer's parameters");
}

TEST(BatchNormRuleTest, OneValuePerChannelIsTooFewToTrainOn) {
  const Layout one = *Layout::Partition({1, 6}, DType::kFloat32, {1, 2}, {0, 1});
  EXPECT_THAT(std::string(Apply("norm { kind: 'batch' }", one).status().message()),
              HasSubstr("more than one value per channel to train on; its input, 1x6, has 1"));
  EXPECT_TRUE(Apply("norm { kind: 'batch' }", one, /*training=*/false).ok());
  const Layout deep = *Layout::Partition({2, 6, 1, 1, 1, 1}, DType::kFloat32, {1, 1, 1, 1, 1, 1}, {0});
  EXPECT_THAT(std::string(Apply("norm { kind: 'batch' }", deep).status().message()),
              HasSubstr("[batch, channels] and up to 3 more dims; its input is 2x6x1x1x1x1"));
}

}  // namespace
}  // namespace adjoin
