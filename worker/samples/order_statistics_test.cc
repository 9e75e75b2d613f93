#include "worker/samples/order_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/test_seed.h"

namespace adjoin {
namespace {

// Goes through the values as often as is needed, some at a time. Returns how often that was.
template <typename Statistics>
int Feed(const std::vector<double>& values, Statistics& statistics) {
  int passes = 0;
  const auto count = static_cast<int64_t>(values.size());
  for (; !statistics.done(); ++passes) {
    for (int64_t at = 0; at < count; at += 7) statistics.Add(values.data() + at, std::min<int64_t>(7, count - at));
    const absl::Status status = statistics.EndPass();
    EXPECT_TRUE(status.ok()) << status;
  }
  return passes;
}

TEST(OrderStatisticsTest, AreWhatSortingGives) {
  const uint64_t seed = TestSeed();
  for (uint64_t i = 0; i < 40; ++i) {
    SCOPED_TRACE(testing::Message() << "ADJOIN_TEST_SEED=" << seed + i);
    std::mt19937_64 random(seed + i);
    std::vector<double> cells(1 + random() % 300);
    const uint64_t kind = random() % 5;
    for (double& cell : cells) {
      const double uniform = static_cast<double>(random()) * 0x1p-64 - 0.5;
      switch (kind) {
        case 0: cell = std::floor(uniform * 6); break;             // many are equal, and 0 or -0
        case 1: cell = static_cast<float>(uniform * 1e30); break;  // of both signs
        case 2: cell = std::ldexp(uniform, static_cast<int>(random() % 2000) - 1000); break;
        case 3: cell = 1000 + uniform * 1e-10; break;  // differ in the last bits
        default: cell = 3; break;
      }
    }
    std::vector<double> sorted = cells;
    std::sort(sorted.begin(), sorted.end());
    const auto count = static_cast<int64_t>(cells.size());
    std::vector<int64_t> ranks = {0, count - 1};
    for (int k = 0; k < 3; ++k) ranks.push_back(static_cast<int64_t>(random() % cells.size()));
    OrderStatistics statistics(ranks);
    EXPECT_LE(Feed(cells, statistics), 4);
    const std::vector<double> found = statistics.Found();
    for (size_t k = 0; k < ranks.size(); ++k) EXPECT_EQ(found[k], sorted[ranks[k]]) << ranks[k];
  }
}

// The bits are those of the formula of numpy.percentile.
TEST(OrderStatisticsTest, PercentilesAreNumpys) {
  Percentiles some(5, {0, 0.5, 10, 25, 50, 62.5, 99.5, 100});
  Feed({9, 1, 4, 7.5, -2}, some);
  EXPECT_EQ(some.Found(), (std::vector<double>{-2.0, -1.94, -0.7999999999999998, 1.0, 4.0, 5.75, 8.97, 9.0}));
  Percentiles one(1, {0, 37, 100});
  Feed({5}, one);
  EXPECT_EQ(one.Found(), (std::vector<double>{5, 5, 5}));
}

// Whole numbers, as volumes of 8 and 16 bits have, are gone through twice.
TEST(OrderStatisticsTest, WholeNumbersAreFoundEarly) {
  std::vector<double> cells;
  for (int i = -1024; i < 3000; ++i) cells.push_back(i);
  OrderStatistics statistics({20, 1024, 4000});
  EXPECT_EQ(Feed(cells, statistics), 2);
  EXPECT_EQ(statistics.Found(), (std::vector<double>{-1004, 0, 2976}));
}

TEST(OrderStatisticsTest, ValuesThatChangeAreAnError) {
  const std::vector<double> values = {1, 1 + 1e-9, 1 + 2e-9};
  OrderStatistics statistics({1});
  statistics.Add(values.data(), 3);
  ASSERT_TRUE(statistics.EndPass().ok());
  statistics.Add(values.data(), 1);
  EXPECT_EQ(statistics.EndPass().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace adjoin
