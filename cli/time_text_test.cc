#include "cli/time_text.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(TimeTextTest, ReadsDurations) {
  EXPECT_EQ(*ReadDuration("90s"), absl::Seconds(90));
  EXPECT_EQ(*ReadDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ReadDuration("1.5d"), absl::Hours(36));
  for (const char* wrong : {"", "10", "m", "-5m", "0s", "d", "inf", "infd", "nand", "5 m", "5x"}) {
    EXPECT_EQ(ReadDuration(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(TimeTextTest, ReadsTimesAgoAndTimes) {
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  EXPECT_EQ(*ReadSince("10m", now), now - absl::Minutes(10));
  const absl::Time noon = absl::FromCivil(absl::CivilSecond(2026, 11, 20, 12, 0, 0), absl::UTCTimeZone());
  EXPECT_EQ(*ReadSince("2026-11-20T12:00:00Z", now), noon);
  EXPECT_EQ(*ReadSince("2026-11-20T13:00:00.5+01:00", now), noon + absl::Milliseconds(500));
  const absl::Time local = absl::FromCivil(absl::CivilSecond(2026, 11, 20, 12, 0, 0), absl::LocalTimeZone());
  EXPECT_EQ(*ReadSince("2026-11-20T12:00:00", now), local);
  EXPECT_EQ(*ReadSince("2026-11-20 12:00", now), local);
  EXPECT_EQ(*ReadSince("2026-11-20", now), local - absl::Hours(12));
  for (const char* wrong : {"", "yesterday", "2026-13-20", "12:00"}) EXPECT_FALSE(ReadSince(wrong, now).ok()) << wrong;
}

}  // namespace
}  // namespace adjoin
