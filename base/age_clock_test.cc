#include "base/age_clock.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

class AgeClockTest : public ::testing::Test {
 protected:
  // The clock of a process that begins now.
  AgeClock Begin(std::optional<AgeMark> last = std::nullopt) {
    return AgeClock([this] { return wall_; }, [this] { return steady_; }, last);
  }
  void Pass(absl::Duration time) {
    wall_ += time;
    steady_ += time;
  }

  absl::Time wall_ = absl::FromUnixSeconds(1700000000);
  absl::Duration steady_ = absl::Seconds(77);
};

TEST_F(AgeClockTest, AWallClockThatIsSetChangesNoAge) {
  const AgeClock clock = Begin();
  const absl::Time used = clock.Now();
  EXPECT_EQ(used, wall_);
  Pass(absl::Hours(5));
  for (const absl::Duration jump : {absl::Hours(24 * 30), -absl::Hours(24 * 365), absl::ZeroDuration()}) {
    wall_ += jump;
    EXPECT_EQ(clock.Now() - used, absl::Hours(5));
  }
}

TEST_F(AgeClockTest, AgesGoOnOverRestartsAndNewMachines) {
  std::optional<AgeMark> mark;
  const absl::Time used = Begin().Now();
  for (int restart = 0; restart < 20; ++restart) {
    const AgeClock clock = Begin(mark);
    Pass(absl::Hours(40));
    mark = clock.Mark();
    wall_ += absl::Hours(2);           // no process runs
    steady_ = absl::Seconds(restart);  // since the machine started
  }
  EXPECT_EQ(Begin(mark).Now() - used, 20 * absl::Hours(42));
}

TEST_F(AgeClockTest, OverARestartTheWallClockCountsForADayAtMost) {
  AgeClock clock = Begin();
  Pass(absl::Hours(5));
  const AgeMark mark = clock.Mark();
  wall_ += absl::Hours(24 * 30);
  EXPECT_EQ(Begin(mark).Now() - mark.age, AgeClock::kMostOverRestart);
  wall_ -= absl::Hours(24 * 60);
  clock = Begin(mark);
  EXPECT_EQ(clock.Now(), mark.age) << "it never goes back";

  // One that was set wrong once, and right again, does no more than that.
  wall_ += absl::Hours(24 * 60);
  clock = Begin(mark);
  for (int restart = 0; restart < 20; ++restart) clock = Begin(clock.Mark());
  EXPECT_EQ(clock.Now() - mark.age, AgeClock::kMostOverRestart);
}

}  // namespace
}  // namespace adjoin
