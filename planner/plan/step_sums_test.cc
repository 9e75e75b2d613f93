#include "planner/plan/step_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using testing::ElementsAre;

TEST(StepSumsTest, AVectorHoldsEachNumberOnce) {
  const StepSums sums = {.loss = 1, .stops_asked = 2, .squared_gradient_norm = 3, .words = {4, 5}};
  const std::vector<double> numbers = sums.ToVector();
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(static_cast<int64_t>(numbers.size()), StepSums::kNumbers);
  EXPECT_EQ(StepSums::FromVector(numbers).ToVector(), numbers);
}

TEST(StepSumsTest, OneNumberHoldsTwoCountsExactly) {
  const std::vector<double> asked = StepSums{.stops_asked = 1, .traces_asked = StepSums::kMostTraced}.ToVector();
  std::vector<double> sum = asked;
  for (int rank = 1; rank < 262144; ++rank) sum[1] += StepSums{.stops_asked = 1}.ToVector()[1];
  EXPECT_EQ(static_cast<int64_t>(sum.size()), StepSums::kNumbers);
  EXPECT_EQ(StepSums::FromVector(sum).stops_asked, 262144);
  EXPECT_EQ(StepSums::FromVector(sum).traces_asked, StepSums::kMostTraced);
  EXPECT_EQ(StepSums::FromVector(StepSums{.stops_asked = 3}.ToVector()).traces_asked, 0);
}

}  // namespace
}  // namespace adjoin
