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

}  // namespace
}  // namespace adjoin
