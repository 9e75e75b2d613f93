#include "worker/data/box_runs.h"
#include "base/testing/test_seed.h"

#include <random>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(BoxRunsTest, HasTheRunsOfTheExamples) {
  EXPECT_EQ(RunsOf({4, 6}, Box({{1, 3}, {2, 5}})), (std::vector<CellRun>{{8, 3}, {14, 3}}));
  EXPECT_EQ(RunsOf({4, 6}, Box({{1, 3}, {0, 6}})), (std::vector<CellRun>{{6, 12}}));
  EXPECT_EQ(RunsOf({}, Box::Whole({})), (std::vector<CellRun>{{0, 1}}));
  EXPECT_TRUE(RunsOf({4, 6}, Box({{1, 3}, {2, 2}})).empty());
}

TEST(BoxRunsTest, RunsCoverTheBoxInOrder) {
  const uint64_t seed = TestSeed(3);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> shape;
    for (unsigned dims = random() % 5; dims > 0; --dims) shape.push_back(random() % 5);
    Box box = Box::Whole(shape);
    for (int dim = 0; dim < box.dims(); ++dim) {
      box[dim].lo = random() % (shape[dim] + 1);
      box[dim].hi = box[dim].lo + random() % (shape[dim] - box[dim].lo + 1);
    }
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < VolumeOf(shape); ++i) {
      int64_t rest = i;
      bool inside = true;
      for (int dim = box.dims() - 1; dim >= 0; rest /= shape[dim--]) inside &= box[dim].Contains(rest % shape[dim]);
      if (inside) expected.push_back(i);
    }
    std::vector<int64_t> found;
    int64_t end = -1;
    for (const CellRun& run : RunsOf(shape, box)) {
      ASSERT_GT(run.first, end) << "two runs that adjoin; seed " << seed;
      for (int64_t i = 0; i < run.count; ++i) found.push_back(run.first + i);
      end = run.first + run.count;
    }
    ASSERT_EQ(found, expected) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace adjoin
