// The rules of layers with several inputs, add and concat, against numbers worked out by hand or by loops.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "layers/builtin/rule_fixture.h"
#include "layers/rules/layer_rule.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shape64 = std::vector<int64_t>;

TEST(AddRuleTest, ComputesInTheLayoutOfTheFirstInput) {
  const Layout a = Cut({4, 6}, {2, 1}, {{0, {3, 1}}}, 3), b = Cut({4, 6}, {1, 3});
  const auto outcome = ApplyRule("name: 's' y: 'y' add {}", {a, b, a}, "layout { name: 'y' partition: [4, 1] }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(outcome->input.size(), 3u);
  for (const InputNeed& need : outcome->input) EXPECT_EQ(need.layout, a);
  EXPECT_EQ(outcome->compute, a);
  EXPECT_EQ(outcome->output, Cut({4, 6}, {4, 1}));
  EXPECT_EQ(outcome->flops, 48);
}

TEST(AddRuleTest, BroadcastInputsAreReadAsTheyAre) {
  const Layout x = Cut({4, 6, 8}, {2, 3, 1}, {{1, {1, 2, 3}}});
  const Layout row = Cut({4, 1, 8}, {1, 1, 2}), batch = Cut({1, 6, 1}, {1, 2, 1}), last = Cut({1, 8}, {1, 4});
  const auto outcome = ApplyRule("multiply {}", {row, x, batch, last});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->compute, x);
  EXPECT_EQ(outcome->output, x);
  EXPECT_EQ(outcome->flops, 3.0 * 4 * 6 * 8);
  // Whole where it is repeated, and cut as x elsewhere.
  EXPECT_EQ(outcome->input[0].layout->LocalShape(4), (Shape64{2, 1, 8}));
  EXPECT_EQ(outcome->input[0].layout->BoxOf(4)[0], (Interval{2, 4}));
  EXPECT_EQ(outcome->input[1].layout, x);
  EXPECT_EQ(outcome->input[2].layout->BoxOf(4), Box({{0, 1}, {1, 3}, {0, 1}}));
  EXPECT_EQ(outcome->input[3].layout->BoxOf(4), Box({{0, 1}, {0, 8}}));
  // An outer product: computed where y is to be, evenly cut where its first input has one element.
  const Layout column = Cut({4, 6, 1}, {1, 3, 1}, {{1, {1, 2, 3}}});
  const auto product = ApplyRule("multiply {}", {column, row});
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->output, Cut({4, 6, 8}, {1, 3, 1}, {{1, {1, 2, 3}}}));
  const auto placed = ApplyRule("y: 'y' multiply {}", {column, row}, "layout { name: 'y' partition: [2, 1, 4] }");
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->compute, Cut({4, 6, 8}, {2, 1, 4}));
  EXPECT_EQ(placed->output, placed->compute);
  EXPECT_EQ(placed->input[1].layout->BoxOf(5), Box({{2, 4}, {0, 1}, {2, 4}}));
}

TEST(AddRuleTest, WhatDoesNotFitIsNamed) {
  const Layout x = Cut({4, 6}, {2, 1});
  EXPECT_THAT(ErrorOf(ApplyRule("name: 's' add {}", {x})), HasSubstr("two inputs or more"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 's' add {}", {x, Cut({4, 5}, {2, 1})})),
              HasSubstr("input 0 is 4x6, input 1 is 4x5"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 's' add {}", {x, Cut({4, 1}, {1, 1}), Cut({2, 6}, {1, 1})})),
              HasSubstr("extents or 1; input 0 is 4x6, input 2 is 2x6"));
  // Four channels, and a batch of four.
  EXPECT_THAT(
      ErrorOf(ApplyRule("name: 's' multiply {}", {Cut({4, 4, 6}, {1, 1, 1}), x})),
      HasSubstr("input 1 is 4x6 and the result 4x4x6: aligned at the last dim, as in PyTorch, its batch would be"
                " beside dim 1; give it as many dims before"));
  EXPECT_THAT(
      ErrorOf(ApplyRule("name: 's' add {}", {Cut({1, 1 << 24, 1}, {1, 1, 1}), Cut({1, 1, 1 << 24}, {1, 1, 1})})),
      HasSubstr("2^46"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 's' add {}", {x, x.WithDType(DType::kInt64)})), HasSubstr("has the type int64"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 's' home: OWNER add {}", {x, x})), HasSubstr("it has none"));
}

TEST(ConcatRuleTest, AlongADimThatIsWholeNothingMovesAlongIt) {
  const Layout a = Cut({4, 3, 6}, {2, 1, 2}, {{0, {1, 3}}}), b = Cut({4, 2, 6}, {1, 1, 3});
  const auto outcome = ApplyRule("name: 'c' concat { arg: -2 }", {a, b});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->spec.concat().arg(0), 1);
  EXPECT_EQ(outcome->output, Cut({4, 5, 6}, {2, 1, 2}, {{0, {1, 3}}}));
  EXPECT_EQ(outcome->input[0].layout, a);
  EXPECT_EQ(outcome->input[1].layout, Cut({4, 2, 6}, {2, 1, 2}, {{0, {1, 3}}}));
}

TEST(ConcatRuleTest, AlongACutDimInputsAreCutWhereTheResultIs) {
  const Layout a = Cut({2, 5}, {1, 3}), b = Cut({2, 2}, {1, 2}), c = Cut({2, 4}, {2, 1});
  // Eleven columns: 4, 4, 3.
  const auto outcome = ApplyRule("name: 'c' concat { arg: 1 }", {a, b, c});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->output, Cut({2, 11}, {1, 3}));
  EXPECT_EQ(outcome->input[0].layout, Cut({2, 5}, {1, 3}, {{1, {4, 1, 0}}}));
  EXPECT_EQ(outcome->input[1].layout, Cut({2, 2}, {1, 3}, {{1, {0, 2, 0}}}));
  EXPECT_EQ(outcome->input[2].layout, Cut({2, 4}, {1, 3}, {{1, {0, 1, 3}}}));
  const auto named = ApplyRule("name: 'c' y: 'y' concat { arg: 1 }", {a, b, c},
                               "layout { name: 'y' partition: [2, 2] cut { dim: 1 size: [0, 11] } }");
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->compute, named->output);
  EXPECT_EQ(named->input[2].layout, Cut({2, 4}, {2, 2}, {{1, {0, 4}}}));
}

// Every cell of a rank's result is in one of its inputs' parts, in their order.
TEST(ConcatRuleTest, PartsOfTheInputsTileThePartsOfTheResult) {
  const uint64_t first = TestSeed(0);
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int from, int to) { return from + static_cast<int>(random() % (to - from + 1)); };
    std::vector<Layout> inputs;
    int64_t total = 0;
    for (int i = pick(2, 4); i > 0; --i) {
      inputs.push_back(Cut({3, pick(0, 6)}, {1, pick(1, 4)}));
      total += inputs.back().shape()[1];
    }
    const int parts = pick(1, 6);
    const auto outcome = ApplyRule("name: 'c' y: 'y' concat { arg: 1 }", inputs,
                                   absl::StrCat("layout { name: 'y' partition: [1, ", parts, "] }"));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    for (int rank = 0; rank < parts; ++rank) {
      std::vector<int64_t> cells, expected;
      int64_t offset = 0;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Interval held = outcome->input[i].layout->BoxOf(rank)[1];
        for (int64_t cell = held.lo; cell < held.hi; ++cell) cells.push_back(offset + cell);
        offset += inputs[i].shape()[1];
      }
      const Interval result = outcome->output.BoxOf(rank)[1];
      for (int64_t cell = result.lo; cell < result.hi; ++cell) expected.push_back(cell);
      EXPECT_EQ(cells, expected) << "ADJOIN_TEST_SEED=" << seed << " rank " << rank;
    }
    EXPECT_EQ(outcome->output.shape()[1], total);
  }
}

TEST(ConcatRuleTest, WhatDoesNotFitIsNamed) {
  const Layout x = Cut({4, 6}, {2, 1});
  EXPECT_THAT(ErrorOf(ApplyRule("name: 'c' concat {}", {x, x})), HasSubstr("one argument, the dim; 0 are given"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 'c' concat { arg: 2 }", {x, x})), HasSubstr("-2 to 1 are possible"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 'c' concat { arg: 1 }", {x, Cut({5, 6}, {1, 1})})),
              HasSubstr("differ in that dim only; input 0 is 4x6, input 1 is 5x6"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 'c' concat { arg: 1 }", {x, Cut({4, 6, 1}, {1, 1, 1})})),
              HasSubstr("input 1 is 4x6x1"));
  EXPECT_THAT(ErrorOf(ApplyRule("name: 'c' concat { arg: 1 }", {x})), HasSubstr("two inputs or more"));
}

}  // namespace
}  // namespace adjoin
