// Which convolutions leave their parts where they are, and what moves then.
#include "layers/conv/edge_halo.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/builtin/rule_fixture.h"
#include "planner/plan/operator_plan.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/window.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Sizes = std::vector<int64_t>;

// Sizes of the parts in which rows are cut, and of those of the output.
struct Rows {
  Sizes inputs;
  Sizes outputs;
};

Layout Image(const Sizes& rows, int64_t channels, int64_t columns) {
  int64_t extent = 0;
  for (int64_t size : rows) extent += size;
  return Cut({1, channels, extent, columns}, {1, 1, static_cast<int64_t>(rows.size()), 1}, {{2, rows}});
}

// The roles for rows that are cut, of a window without a dilation; the kernel of columns, which are whole, is 1.
std::vector<std::string> Roles(const Rows& rows, const Window::Options& window, int64_t smallest = 1,
                               const Window::Options& columns = {}) {
  const std::map<int, Reading> windows = {{2, Window::Create(window).value()}, {3, Window::Create(columns).value()}};
  const auto movements = EdgeMovements(Image(rows.inputs, 3, 10), windows, Image(rows.outputs, 5, 10), smallest);
  EXPECT_TRUE(movements.ok()) << movements.status();
  return RolesOf(movements.value());
}

constexpr Window::Options kThree = {.kernel = 3, .pad_lo = 1, .pad_hi = 1};
constexpr Window::Options kThreeByTwo = {.kernel = 3, .stride = 2, .pad_lo = 1, .pad_hi = 1};
constexpr Window::Options kSevenByTwo = {.kernel = 7, .stride = 2, .pad_lo = 3, .pad_hi = 3};

TEST(EdgeHaloTest, PartsHaveAStridesInputsForEachOutput) {
  EXPECT_THAT(Roles({{8, 5}, {8, 5}}, kThree), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 6}, {4, 3}}, kThreeByTwo), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 6, 10}, {4, 3, 5}}, kSevenByTwo), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{7, 7}, {4, 3}}, kThreeByTwo), IsEmpty());
  EXPECT_THAT(Roles({{8, 5}, {4, 3}}, kThreeByTwo), IsEmpty()) << "an output at the end for one input";
  EXPECT_THAT(Roles({{8, 6}, {3, 4}}, kThreeByTwo), IsEmpty());
  EXPECT_THAT(Roles({{8, 5}, {5, 8}}, kThree), IsEmpty());
}

TEST(EdgeHaloTest, PartsAreAsLongAsBothEdges) {
  EXPECT_THAT(Roles({{8, 6}, {4, 3}}, kSevenByTwo), ElementsAre("edges2")) << "3 and 2 cells";
  EXPECT_THAT(Roles({{8, 4}, {4, 2}}, kSevenByTwo), IsEmpty());
  EXPECT_THAT(Roles({{8, 2}, {8, 2}}, kThree), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 1}, {8, 1}}, kThree), IsEmpty());
}

TEST(EdgeHaloTest, SmallPartsAreCopied) {
  EXPECT_THAT(Roles({{8, 6}, {4, 3}}, kThreeByTwo, 3 * 6 * 10), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 6}, {4, 3}}, kThreeByTwo, 3 * 6 * 10 + 1), IsEmpty());
}

TEST(EdgeHaloTest, AKernelAloneReturnsAPartsOutputs) {
  EXPECT_THAT(Roles({{8, 8}, {4, 3}}, {.kernel = 3, .stride = 2}), IsEmpty());
  EXPECT_THAT(Roles({{8, 8}, {4, 4}}, {.kernel = 4, .stride = 2, .pad_lo = 1, .pad_hi = 1}), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 8}, {8, 8}}, {.kernel = 2, .pad_lo = 1}), IsEmpty());
  Window::Options mirrored = kThree;
  mirrored.boundary = Boundary::kReflect;
  EXPECT_THAT(Roles({{8, 8}, {8, 8}}, mirrored), IsEmpty());
  EXPECT_THAT(Roles({{8, 8}, {4, 4}}, {.kernel = 2, .stride = 2}), IsEmpty()) << "nothing is read beside a part";
}

// Whole columns are padded by the kernel, with any stride.
TEST(EdgeHaloTest, DimsThatAreNotCutNeedTheSamePaddingOnBothSides) {
  EXPECT_THAT(Roles({{8, 8}, {8, 8}}, kThree, 1, {.kernel = 5, .stride = 3}), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 8}, {8, 8}}, kThree, 1, kSevenByTwo), ElementsAre("edges2"));
  EXPECT_THAT(Roles({{8, 8}, {8, 8}}, kThree, 1, {.kernel = 3, .pad_lo = 1}), IsEmpty());
  EXPECT_THAT(Roles({{8, 8}, {8, 8}}, kThree, 1, {.kernel = 3, .pad_lo = -1, .pad_hi = -1}), IsEmpty());
}

TEST(EdgeHaloTest, WhatMovesIsWhatIsRead) {
  const std::map<int, Reading> windows = {{2, Window::Create(kThreeByTwo).value()},
                                          {3, Window::Create(kSevenByTwo).value()}};
  const auto movements = EdgeMovements(Cut({1, 3, 16, 32}, {1, 1, 2, 2}), windows, Cut({1, 5, 8, 16}, {1, 1, 2, 2}), 1);
  ASSERT_TRUE(movements.ok()) << movements.status();
  ASSERT_THAT(RolesOf(*movements), ElementsAre("edges2", "edges3"));
  const MovementNeed &rows = (*movements)[0], &columns = (*movements)[1];
  EXPECT_EQ(rows.source.at(2).ToString(), "inner edges of 1 before, 0 after");
  EXPECT_EQ(rows.readings.at(2).ToString(), "outer edges of 1 before, 0 after");
  // The corners: columns of the part's outputs in dim 3.
  EXPECT_EQ(rows.readings.at(3).Reads({16, 32}, 32), (Interval{13, 34}));
  EXPECT_EQ(Window::Create(kSevenByTwo)->Reads({8, 16}), (Interval{13, 34}));
  EXPECT_EQ(columns.source.at(3).ToString(), "inner edges of 3 before, 2 after");
  EXPECT_EQ(columns.readings.at(3).ToString(), "outer edges of 3 before, 2 after");
  EXPECT_EQ(columns.readings.count(2), 0u);
}

TEST(EdgeHaloTest, EachRankSendsAsManyBytesAsForAHalo) {
  constexpr int kRanks = 6;
  const Layout x = Cut({2, 3, 24, 32}, {1, 1, 3, 2}), y = Cut({2, 3, 12, 16}, {1, 1, 3, 2});
  const Window::Options fourByTwo = {.kernel = 4, .stride = 2, .pad_lo = 1, .pad_hi = 1};
  for (const Window::Options& options : {kThreeByTwo, kSevenByTwo, fourByTwo}) {
    const Window window = Window::Create(options).value();
    const std::map<int, Reading> windows = {{2, window}, {3, window}};
    const auto halo = MakeOperator({.name = "x", .from = x, .to = y, .readings = windows}, kRanks);
    ASSERT_TRUE(halo.ok()) << halo.status();
    const auto movements = EdgeMovements(x, windows, y, 1);
    ASSERT_TRUE(movements.ok()) << movements.status();
    ASSERT_EQ(movements->size(), 2u) << window.ToString();
    std::vector<int64_t> bytes(kRanks);
    for (const MovementNeed& need : *movements) {
      const auto op = MakeOperator(
          {.name = need.role, .from = need.from, .to = need.to, .readings = need.readings, .source = need.source},
          kRanks);
      ASSERT_TRUE(op.ok()) << op.status();
      for (int rank = 0; rank < kRanks; ++rank) bytes[rank] += op->bytes_forward(rank);
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(bytes[rank], halo->bytes_forward(rank)) << window.ToString() << ", rank " << rank;
    }
    EXPECT_GT(halo->bytes_forward_sum(), 0);
  }
}

TEST(EdgeHaloTest, EdgesOfAConvolutionInAPlan) {
  const auto outcome = ApplyRule("conv { out_channels: 2 window { kernel: [3, 7] stride: 2 pad_lo: [1, 3] } }",
                                 {Cut({1, 3, 16, 32}, {1, 1, 2, 2})});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto rows = EdgesOfConv(outcome->spec.conv(), 2), columns = EdgesOfConv(outcome->spec.conv(), 3);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(rows->before.cells, 1);
  EXPECT_EQ(rows->after.cells, 0);
  EXPECT_EQ(columns->before.cells, 3);
  EXPECT_EQ(columns->after.cells, 2);
  EXPECT_FALSE(EdgesOfConv(outcome->spec.conv(), 4).ok());
}

}  // namespace
}  // namespace adjoin
