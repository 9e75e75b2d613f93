#include "planner/auto/auto_layouts.h"

#include <vector>

#include "gtest/gtest.h"
#include "planner/plan/planner.h"

namespace adjoin {
namespace {

TEST(AutoLayoutsTest, ReadsNumbersOfRanks) {
  EXPECT_EQ(ParseRanks("")->first, 0);
  EXPECT_EQ(ParseRanks("8")->last, 8);
  EXPECT_EQ(ParseRanks("2..64")->first, 2);
  for (const char* wrong : {"0", "-1", "a", "8..", "..8", "8..4", "1..32769", "1...4", "1.4", "99999999999999999999"}) {
    EXPECT_FALSE(ParseRanks(wrong).ok()) << wrong;
  }
  EXPECT_EQ(RanksInTable({1, 8}), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(RanksInTable({3, 12}), (std::vector<int64_t>{3, 4, 8, 12}));
  EXPECT_EQ(RanksInTable({4, 4}), (std::vector<int64_t>{4}));
}

TEST(AutoLayoutsTest, RefusesOptionsThatNeedAuto) {
  AutoLayoutOptions options;
  EXPECT_TRUE(CheckAutoOptions(options).ok());
  options.pin = {"a=1x1"};
  EXPECT_FALSE(CheckAutoOptions(options).ok());
  options.chosen = true;
  EXPECT_TRUE(CheckAutoOptions(options).ok());
}

}  // namespace
}  // namespace adjoin
