#include "coordinator/services/long_expired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

TEST(LongExpiredTest, ALookIsDueAgainAfterAMinute) {
  absl::Duration now = absl::Hours(7);
  LongExpired long_expired([&] { return now; });
  EXPECT_TRUE(long_expired.Due());
  long_expired.Of({});
  EXPECT_FALSE(long_expired.Due());
  now += absl::Seconds(59);
  EXPECT_FALSE(long_expired.Due());
  now += absl::Seconds(1);
  EXPECT_TRUE(long_expired.Due());
}

TEST(LongExpiredTest, ThousandsAreForgottenBitByBit) {
  absl::Duration now;
  LongExpired long_expired([&] { return now; });
  std::set<std::string> expired;
  for (size_t i = 0; i < LongExpired::kMostAtOnce + 2; ++i) expired.insert(absl::StrCat("id-", i));
  EXPECT_THAT(long_expired.Of(expired), IsEmpty());
  now += LongExpired::kTime;
  const std::set<std::string> first = long_expired.Of(expired);
  EXPECT_THAT(first, SizeIs(LongExpired::kMostAtOnce));
  for (const std::string& id : first) ASSERT_EQ(expired.erase(id), 1) << id;
  EXPECT_EQ(long_expired.Of(expired), expired);
}

}  // namespace
}  // namespace adjoin
