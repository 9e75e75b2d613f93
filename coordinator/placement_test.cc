#include "coordinator/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(PlaceRanksTest, OneWorkerTakesAllWhereOneCanTheTightestOne) {
  EXPECT_THAT(PlaceRanks(2, 0, {{"a", 4}, {"b", 2}, {"c", 1}}, {}), Optional(ElementsAre("b", "b")));
}

TEST(PlaceRanksTest, ConsecutiveRanksStayTogether) {
  EXPECT_THAT(PlaceRanks(5, 0, {{"a", 1}, {"b", 3}, {"c", 2}}, {}), Optional(ElementsAre("b", "b", "b", "c", "c")));
}

TEST(PlaceRanksTest, AllOrNone) {
  EXPECT_EQ(PlaceRanks(7, 0, {{"a", 1}, {"b", 3}, {"c", 2}}, {}), std::nullopt);
  EXPECT_EQ(PlaceRanks(3, 1, {{"a", 8}, {"b", 8}}, {}), std::nullopt);
  EXPECT_THAT(PlaceRanks(2, 1, {{"a", 8}, {"b", 8}}, {}), Optional(ElementsAre("a", "b")));
}

TEST(PlaceRanksTest, RanksKeepTheirWorkers) {
  EXPECT_THAT(PlaceRanks(4, 0, {{"a", 8}, {"b", 2}, {"c", 2}}, {"b", "b", "c", "c"}),
              Optional(ElementsAre("b", "b", "c", "c")));
  // One of them is gone: only its ranks move.
  EXPECT_THAT(PlaceRanks(4, 0, {{"a", 8}, {"c", 2}}, {"b", "b", "c", "c"}), Optional(ElementsAre("a", "a", "c", "c")));
  EXPECT_THAT(PlaceRanks(4, 2, {{"a", 8}, {"c", 2}}, {"a", "a", "a", "c"}), Optional(ElementsAre("a", "a", "c", "c")));
}

}  // namespace
}  // namespace adjoin
