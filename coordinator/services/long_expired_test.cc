#include "coordinator/services/long_expired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LongExpiredTest, WhatHadExpiredForADayIsForgotten) {
  absl::Duration now = absl::Hours(7);
  LongExpired long_expired([&] { return now; });
  EXPECT_THAT(long_expired.Of({"a"}), IsEmpty());
  now += absl::Hours(10);
  EXPECT_THAT(long_expired.Of({"a", "b"}), IsEmpty());
  now += absl::Hours(14);
  EXPECT_THAT(long_expired.Of({"a", "b"}), ElementsAre("a"));
  EXPECT_THAT(long_expired.Of({"b"}), IsEmpty());
  now += absl::Hours(10);
  EXPECT_THAT(long_expired.Of({"b"}), ElementsAre("b"));
}

TEST(LongExpiredTest, WhatCountedAgainMeanwhileHasADayAnew) {
  absl::Duration now;
  LongExpired long_expired([&] { return now; });
  EXPECT_THAT(long_expired.Of({"a", "b"}), IsEmpty());
  now += absl::Hours(20);
  EXPECT_THAT(long_expired.Of({"b"}), IsEmpty());
  now += absl::Hours(20);
  EXPECT_THAT(long_expired.Of({"a", "b"}), ElementsAre("b"));
}

}  // namespace
}  // namespace adjoin
