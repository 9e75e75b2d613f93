#include "base/number_ranges.h"

#include <gtest/gtest.h>

#include <vector>

namespace adjoin {
namespace {

TEST(NumberRangesTest, NeighboursAreJoined) {
  const auto text = [](const std::vector<int>& numbers) { return NumberRanges(numbers); };
  EXPECT_EQ(text({}), "");
  EXPECT_EQ(text({4}), "4");
  EXPECT_EQ(text({0, 1, 2, 3, 6}), "0-3,6");
  EXPECT_EQ(text({5, 6, 4, 4, 8, 9}), "5-6,4,4,8-9");
}

}  // namespace
}  // namespace adjoin
