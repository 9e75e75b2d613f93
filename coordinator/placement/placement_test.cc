#include "coordinator/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::vector<int> Ranks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(PlaceRanksTest, OneWorkerTakesAllWhereOneCanTheTightestOne) {
  EXPECT_THAT(PlaceRanks(Ranks(2), 0, {{"a", 4}, {"b", 2}, {"c", 1}}, {}), Optional(ElementsAre("b", "b")));
}

TEST(PlaceRanksTest, ConsecutiveRanksStayTogether) {
  EXPECT_THAT(PlaceRanks(Ranks(5), 0, {{"a", 1}, {"b", 3}, {"c", 2}}, {}), Optional(ElementsAre("b", "b", "b", "c", "c")));
}

TEST(PlaceRanksTest, ThoseThatFollowEachOtherInTheOrderStayTogether) {
  EXPECT_THAT(PlaceRanks({0, 2, 1, 3}, 0, {{"a", 2}, {"b", 2}}, {}), Optional(ElementsAre("a", "b", "a", "b")));
}

TEST(PlaceRanksTest, AllOrNone) {
  EXPECT_EQ(PlaceRanks(Ranks(7), 0, {{"a", 1}, {"b", 3}, {"c", 2}}, {}), std::nullopt);
  EXPECT_EQ(PlaceRanks(Ranks(3), 1, {{"a", 8}, {"b", 8}}, {}), std::nullopt);
  EXPECT_THAT(PlaceRanks(Ranks(2), 1, {{"a", 8}, {"b", 8}}, {}), Optional(ElementsAre("a", "b")));
}

TEST(PlaceRanksTest, RanksKeepTheirWorkers) {
  EXPECT_THAT(PlaceRanks(Ranks(4), 0, {{"a", 8}, {"b", 2}, {"c", 2}}, {"b", "b", "c", "c"}),
              Optional(ElementsAre("b", "b", "c", "c")));
  // One of them is gone: only its ranks move.
  EXPECT_THAT(PlaceRanks(Ranks(4), 0, {{"a", 8}, {"c", 2}}, {"b", "b", "c", "c"}), Optional(ElementsAre("a", "a", "c", "c")));
  EXPECT_THAT(PlaceRanks(Ranks(4), 2, {{"a", 8}, {"c", 2}}, {"a", "a", "a", "c"}), Optional(ElementsAre("a", "a", "c", "c")));
}

}  // namespace
}  // namespace adjoin
