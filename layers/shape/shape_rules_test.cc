// The rules of layers that give elements other places, against layouts and errors worked out by hand.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/rule_fixture.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::HasSubstr;
using testing::Not;
using Shape64 = std::vector<int64_t>;

absl::StatusOr<LayerOutcome> Apply(const std::string& text, const Layout& x, const std::string& y = "") {
  if (y.empty()) return ApplyRule(text, {x});
  return ApplyRule(absl::StrCat("y: 'y' ", text), {x}, absl::StrCat("layout { name: 'y' ", y, " }"));
}

TEST(ReshapeRuleTest, StaysLocalWherePartsAreBlocks) {
  const Layout x = Cut({2, 8, 6}, {1, 4, 1});
  const auto heads = Apply("reshape { arg: [4, -1, 6] }", x);
  ASSERT_TRUE(heads.ok()) << heads.status();
  EXPECT_EQ(heads->output, Cut({2, 4, 2, 6}, {1, 4, 1, 1}));
  EXPECT_FALSE(heads->input[0].layout.has_value());
  EXPECT_EQ(heads->spec.reshape().arg(1), 2);
  EXPECT_EQ(Apply("reshape { arg: [2, 4, 6] }", x)->output, Cut({2, 2, 4, 6}, {1, 2, 2, 1}));
  EXPECT_THAT(ErrorOf(Apply("reshape { arg: [5, -1] }", x)), HasSubstr("not one of 48 elements"));
  EXPECT_THAT(ErrorOf(Apply("reshape { arg: [7, 7] }", x)), HasSubstr("7x7, which leaves out the batch"));
  EXPECT_THAT(ErrorOf(Apply("reshape { arg: [-1, -1] }", x)), HasSubstr("one may be -1"));
  EXPECT_THAT(ErrorOf(Apply("reshape { arg: [9223372036854775807, 9223372036854775807] }", x)),
              HasSubstr("not one of 48"));
  EXPECT_EQ(Apply("reshape { arg: -1 }", x, "partition: [2, 1]")->output, Cut({2, 48}, {2, 1}));
}

TEST(ReshapeRuleTest, MovesItsInputElsewhere) {
  const Layout grid = Cut({2, 8, 4, 6}, {1, 1, 2, 2});
  const auto flat = Apply("flatten {}", grid);
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_EQ(flat->input[0].layout, Cut({2, 8, 4, 6}, {1, 4, 1, 1}));
  EXPECT_EQ(flat->compute, Cut({2, 192}, {1, 4}));
  EXPECT_EQ(flat->output, flat->compute);
  // The channels stay whole where only space is merged.
  const auto rows = Apply("flatten { arg: 2 }", grid);
  EXPECT_EQ(rows->input[0].layout, Cut({2, 8, 4, 6}, {1, 1, 4, 1}));
  EXPECT_EQ(rows->output, Cut({2, 8, 24}, {1, 1, 4}));
  EXPECT_EQ(Apply("reshape { arg: [6, 8] }", Cut({2, 8, 6}, {1, 4, 1}))->output,
            Cut({2, 6, 8}, {1, 4, 1}, {{1, {3, 3, 0, 0}}}));
  // One movement leads to a y that is possible; another y is reached from where it is computed.
  const auto to_y = Apply("flatten {}", grid, "partition: [2, 2]");
  EXPECT_EQ(to_y->input[0].layout, Cut({2, 8, 4, 6}, {2, 2, 1, 1}));
  EXPECT_EQ(to_y->compute, to_y->output);
  const auto after = Apply("flatten {}", grid, "partition: [1, 5]");
  EXPECT_EQ(after->input[0].layout, Cut({2, 8, 4, 6}, {1, 4, 1, 1}));
  EXPECT_EQ(after->compute, Cut({2, 192}, {1, 4}));
  EXPECT_EQ(after->output, Cut({2, 192}, {1, 5}));
}

// A layout that x names is not left. The error names the ranks where they are not the first ones, and no cut of the
// batch, which other programs have of another size.
TEST(ReshapeRuleTest, AnXThatDoesNotFitGetsUsableAdvice) {
  const Layout x = *Layout::Partition({6, 8, 6}, DType::kFloat32, {2, 1, 2}, {6, 7, 4, 5}, {{0, {5, 1}}});
  const std::string named = ErrorOf(ApplyRule("x: 'x' reshape { arg: 48 }", {x}));
  EXPECT_THAT(named, HasSubstr("cut in dim 2 where a part of it would not be a block of the result. Leave x out"));
  EXPECT_THAT(named, HasSubstr("a layout such as partition: [2, 2, 1] rank: [6, 7, 4, 5]"));
  EXPECT_THAT(named, Not(HasSubstr("cut { dim: 0")));
  EXPECT_TRUE(ApplyRule("x: '' reshape { arg: 48 }", {x}).ok());
  const Mesh mesh = *Mesh::Create({2, 4});
  const Layout copies =
      *Layout::Create({6, 8, 6}, DType::kFloat32, mesh, {Placement::Broadcast(), Placement::Split(2)});
  EXPECT_THAT(
      ErrorOf(ApplyRule("x: 'x' flatten {}", {copies})),
      HasSubstr("such as mesh { size: 2 } sbp: \"B\" mesh { size: 4 } sbp: \"S(1)\" mesh { size: 1 } sbp: \"S(2)\""));
  EXPECT_THAT(ErrorOf(ApplyRule("x: 'x' reshape { arg: [6, 8] }", {Cut({2, 8, 6}, {1, 4, 1})})),
              HasSubstr("partition: [1, 4, 1] cut { dim: 1 size: [4, 4, 0, 0] }"));
}

TEST(RepartitionRuleTest, NumbersOfAnyType) {
  const Layout x = *Layout::Partition({2, 8, 6}, DType::kInt64, {1, 1, 2}, {0, 1});
  const auto outcome = Apply("repartition {}", x, "partition: [1, 2, 1]");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->output, Cut({2, 8, 6}, {1, 2, 1}).WithDType(DType::kInt64));
}

TEST(PermuteRuleTest, CutsGoWithTheirDims) {
  const auto outcome = Apply("permute { arg: [0, -1, 1] }", Cut({2, 8, 6}, {1, 3, 2}, {{1, {5, 0, 3}}}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->input[0].layout.has_value());
  EXPECT_EQ(outcome->output.LocalShape(2), (Shape64{2, 3, 0}));
  EXPECT_EQ(outcome->output.LocalShape(5), (Shape64{2, 3, 3}));
  const Layout x = Cut({2, 8, 6}, {1, 1, 1});
  EXPECT_THAT(ErrorOf(Apply("permute { arg: [0, 1] }", x)), HasSubstr("names 2 dims of an input of 3"));
  EXPECT_THAT(ErrorOf(Apply("permute { arg: [0, 1, -2] }", x)), HasSubstr("dim 1 is named twice"));
  EXPECT_THAT(ErrorOf(Apply("permute { arg: [0, 1, 3] }", x)), HasSubstr("-3 to 2 are possible"));
}

TEST(ExpandRuleTest, OnlyTheInputMoves) {
  const Layout x = Cut({4, 1, 6}, {2, 2, 1});
  const auto outcome = Apply("expand { arg: [-1, 5, -1] }", x);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->output, Cut({4, 5, 6}, {2, 2, 1}));
  EXPECT_EQ(outcome->compute, outcome->output);
  EXPECT_EQ(outcome->input[0].layout->LocalShape(1), (Shape64{2, 1, 6}));
  EXPECT_EQ(Apply("expand { arg: [-1, 5, 6] }", x, "partition: [1, 5, 1]")->compute, Cut({4, 5, 6}, {1, 5, 1}));
  EXPECT_EQ(Apply("expand { arg: [3, 4, 1, 6] }", x)->output.LocalShape(0), (Shape64{3, 2, 1, 6}));
  EXPECT_THAT(ErrorOf(Apply("expand { arg: [5, 6] }", x)), HasSubstr("2 extents for an input of shape 4x1x6"));
  EXPECT_THAT(ErrorOf(Apply("expand { arg: [5, 1, 6] }", x)), HasSubstr("the batch stays as it is: 4 samples"));
  EXPECT_THAT(ErrorOf(Apply("expand { arg: [-1, 1, 7] }", x)), HasSubstr("dim 2 has 6 elements and cannot become 7"));
  EXPECT_THAT(ErrorOf(Apply("expand { arg: [-1, -1, 1, 6] }", x)), HasSubstr("of a new dim"));
  EXPECT_THAT(ErrorOf(Apply("expand { arg: [-1, 4611686018427387904, 6] }", x)), HasSubstr("too large"));
}

TEST(SelectionRuleTest, LayoutsAndErrors) {
  const Layout x = Cut({4, 3, 6}, {2, 1, 2}, {{2, {4, 2}}});
  // The shape stays, and so do the cuts.
  EXPECT_EQ(Apply("roll { arg: [-1, 2, 2, 1] }", x)->output, x);
  EXPECT_EQ(Apply("flip { arg: [0, 2] }", x)->output, x);
  EXPECT_TRUE(Apply("roll { arg: [2, 6] }", x)->input[0].readings.empty());
  const auto twice = Apply("repeat { arg: [1, 1, 2] }", x);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(twice->output, Cut({4, 3, 12}, {2, 1, 2}));
  EXPECT_FALSE(twice->input[0].layout.has_value());
  // The input goes to where the output is to be; there is no other movement.
  const auto moved = Apply("index_select { arg: [1, 2, 2, 0, 1] }", x, "partition: [1, 4, 1]");
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->compute, Cut({4, 4, 6}, {1, 4, 1}));
  EXPECT_EQ(moved->output, moved->compute);
  EXPECT_THAT(ErrorOf(Apply("roll { arg: [2] }", x)), HasSubstr("pairs of a dim and by how much"));
  EXPECT_THAT(ErrorOf(Apply("roll { arg: [3, 1] }", x)), HasSubstr("-3 to 2 are possible"));
  EXPECT_THAT(ErrorOf(Apply("flip {}", x)), HasSubstr("names no dim"));
  EXPECT_THAT(ErrorOf(Apply("flip { arg: [1, -2] }", x)), HasSubstr("dim 1 is named twice"));
  EXPECT_THAT(ErrorOf(Apply("repeat { arg: [2, 1] }", x)), HasSubstr("write how often for each dim"));
  EXPECT_THAT(ErrorOf(Apply("repeat { arg: [1, 1, -1] }", x)), HasSubstr("cannot be repeated -1 times"));
  EXPECT_THAT(ErrorOf(Apply("repeat { arg: [1, 1, 9223372036854775807] }", x)), HasSubstr("2^46"));
  EXPECT_THAT(ErrorOf(Apply("index_select { arg: [1] }", x)), HasSubstr("a dim and then the indices"));
  EXPECT_THAT(ErrorOf(Apply("index_select { arg: [1, 3] }", x)), HasSubstr("index 3 of dim 1, which has 3"));
  EXPECT_THAT(ErrorOf(Apply("index_select { arg: [1, -1] }", x)), HasSubstr("0 to 2 are possible"));
}

TEST(ShapeRulesTest, TensorsOfManyDimsAreRefused) {
  const Layout x = Cut({2, 1}, {1, 1});
  std::string ones = "1";
  for (int i = 0; i < 15; ++i) ones += ", 1";
  const std::string right = "a tensor of 17 dims; at most 16 are possible";
  EXPECT_THAT(ErrorOf(Apply("reshape { arg: [" + ones + "] }", x)), HasSubstr(right));
  EXPECT_THAT(ErrorOf(Apply("expand { arg: [" + ones + ", 1] }", x)), HasSubstr(right));
}

TEST(PixelShuffleRuleTest, CutsBetweenGroups) {
  const auto aligned = Apply("pixel_shuffle { arg: 2 }", Cut({2, 8, 3, 5}, {1, 2, 1, 2}));
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_EQ(aligned->input[0].layout, Cut({2, 8, 3, 5}, {1, 2, 1, 2}));
  EXPECT_EQ(aligned->output, Cut({2, 2, 6, 10}, {1, 2, 1, 2}, {{3, {6, 4}}}));
  // Channels 0 to 4 and 5 to 7: the nearest cut between groups is at 4.
  const auto moved = Apply("pixel_shuffle { arg: 2 }", Cut({2, 8, 3, 5}, {1, 2, 1, 1}, {{1, {5, 3}}}));
  EXPECT_EQ(moved->input[0].layout, Cut({2, 8, 3, 5}, {1, 2, 1, 1}));
  // One movement leads to a y that is possible; another one is reached from where it is computed.
  const auto to_y = Apply("pixel_unshuffle { arg: 3 }", Cut({2, 2, 9}, {1, 1, 3}), "partition: [1, 2, 1]");
  ASSERT_TRUE(to_y.ok()) << to_y.status();
  EXPECT_EQ(to_y->input[0].layout, Cut({2, 2, 9}, {1, 2, 1}));
  EXPECT_EQ(to_y->compute, Cut({2, 6, 3}, {1, 2, 1}));
  const auto after = Apply("pixel_unshuffle { arg: 3 }", Cut({2, 2, 9}, {1, 1, 3}), "partition: [1, 4, 1]");
  EXPECT_EQ(after->compute, Cut({2, 6, 3}, {1, 1, 3}));
  EXPECT_EQ(after->output, Cut({2, 6, 3}, {1, 4, 1}));
  const Layout x = Cut({2, 8, 3, 5}, {1, 1, 1, 1});
  EXPECT_THAT(ErrorOf(Apply("pixel_shuffle { arg: 3 }", x)),
              HasSubstr("dim 1 has 8 elements, which is no multiple of 9"));
  EXPECT_THAT(ErrorOf(Apply("pixel_unshuffle { arg: 2 }", x)), HasSubstr("dim 2 has 3 elements"));
  EXPECT_THAT(ErrorOf(Apply("pixel_shuffle {}", x)), HasSubstr("one argument, the factor"));
  EXPECT_THAT(
      ErrorOf(Apply("pixel_unshuffle { arg: 32768 }", Cut({1, 1 << 20, 0, 0, 0}, {1, 1, 1, 1, 1}))),
      HasSubstr("dim 1 of 1048576 elements would have 35184372088832 times as many; at most 2^46 are possible"));
  EXPECT_THAT(ErrorOf(Apply("pixel_shuffle { arg: 2 }", Cut({2, 8}, {1, 1}))), HasSubstr("1, 2 or 3 spatial dims"));
}

}  // namespace
}  // namespace adjoin
