#include "primitives/random/philox.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

using Block = std::array<uint32_t, 4>;

// kat_vectors of Random123 (philox4x32, 10 rounds).
TEST(PhiloxTest, GivesKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformHasTheRightRangeAndMoments) {
  const RandomStream stream(1, kPurposeInit, 0);
  const int n = 200000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = stream.UniformAt(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ASSERT_EQ(u * 0x1p53, std::floor(u * 0x1p53));
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.005);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
}

TEST(PhiloxTest, DependsOnEveryPartOfTheName) {
  std::set<double> values;
  const uint64_t big = uint64_t{1} << 40;  // also in the upper halves
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, big})
    for (uint64_t purpose : {uint64_t{0}, kPurposeInit, kPurposeShuffle, big})
      for (uint64_t step : {uint64_t{0}, uint64_t{1}, big})
        for (uint64_t index : {uint64_t{0}, uint64_t{1}, big}) {
          const double u = UniformAt(seed, purpose, step, index);
          EXPECT_EQ(u, RandomStream(seed, purpose, step).UniformAt(index));
          values.insert(u);
        }
  EXPECT_EQ(values.size(), 3u * 4 * 3 * 3);
}

TEST(PermutationTest, IsAPermutationThatDependsOnSeedAndEpoch) {
  for (int64_t n : {0, 1, 2, 3, 64, 10000}) {
    std::vector<int64_t> order = Permutation(7, kPurposeShuffle, 3, n);
    EXPECT_EQ(order, Permutation(7, kPurposeShuffle, 3, n));
    if (n >= 64) {
      EXPECT_NE(order, Permutation(8, kPurposeShuffle, 3, n));
      EXPECT_NE(order, Permutation(7, kPurposeShuffle, 4, n));
    }
    std::sort(order.begin(), order.end());
    ASSERT_EQ(static_cast<int64_t>(order.size()), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(PhiloxTest, BelowStaysBelowAndReachesEverything) {
  const RandomStream stream(5, kPurposeBlocks, 2);
  std::map<uint64_t, int> seen;
  for (uint64_t i = 0; i < 3000; ++i) ++seen[stream.BelowAt(i, 3)];
  EXPECT_EQ(seen.size(), 3u);
  for (const auto& [value, count] : seen) {
    EXPECT_LT(value, 3u);
    EXPECT_NEAR(count, 1000, 130);  // five standard deviations
  }
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(stream.BelowAt(i, 1), 0u);
}

TEST(PermutationTest, GivesAllOrdersEqualChances) {
  std::map<std::vector<int64_t>, int> seen;
  const int draws = 24000;
  for (int epoch = 0; epoch < draws; ++epoch) ++seen[Permutation(1, kPurposeShuffle, epoch, 4)];
  ASSERT_EQ(seen.size(), 24u);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, draws / 24, 160) << "five standard deviations";
}

}  // namespace
}  // namespace adjoin
