#include "coordinator/decisions/progress_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

const std::vector<std::string> kNames = {"rank 0 on a", "rank 1 on a", "rank 2 on b"};

RankPulse Pulse(uint32_t rank, uint64_t step, Activity activity, const std::string& op = "") {
  RankPulse pulse;
  pulse.set_rank(rank);
  pulse.set_phase("training");
  pulse.set_step(step);
  pulse.set_activity(activity);
  pulse.set_operator_(op);
  pulse.set_generation(op.empty() ? 0 : 2 * step);
  pulse.set_process("running");
  pulse.set_step_seconds(step > 0 ? 0.5 : 0);
  return pulse;
}

class ProgressWatchTest : public ::testing::Test {
 protected:
  void Hear(int second, const std::vector<RankPulse>& pulses) {
    for (const RankPulse& pulse : pulses) watch_.Heard(pulse, absl::Seconds(second));
  }
  std::string StuckAt(int second) {
    return watch_.Stuck(absl::Seconds(second), lateness_, [](size_t r) { return kNames[r]; }).value_or("");
  }
  absl::Duration lateness_;
  ProgressWatch watch_{ProgressLimits(), 3, absl::ZeroDuration()};
};

TEST_F(ProgressWatchTest, NamesTheRankThatComputesAndWhatTheOthersWaitIn) {
  for (int second = 1; second <= 100; ++second) {
    Hear(second, {Pulse(0, 4, WAITING, "conv1.x"), Pulse(1, 4, COMPUTING), Pulse(2, 4, WAITING, "conv1.x")});
    if (second <= 61) {
      EXPECT_EQ(StuckAt(second), "") << second;
    }
  }
  EXPECT_EQ(StuckAt(100),
            "no step was finished for 1m: rank 1 on a computes (training, after step 4), while ranks 0, 2 "
            "wait in conv1.x, execution 8");
}

TEST_F(ProgressWatchTest, NamesAStoppedProcessAndASilentOne) {
  RankPulse stopped = Pulse(2, 4, WAITING, "fc.y");
  stopped.set_process("stopped");
  for (int second = 1; second <= 100; ++second) {
    stopped.set_age_seconds(second);
    Hear(second, {Pulse(0, 4, WAITING, "conv1.x"), Pulse(1, 4, WAITING, "fc.y"), stopped});
  }
  EXPECT_THAT(StuckAt(100),
              ::testing::HasSubstr("rank 2 on b is stopped by a signal (training, after step 4), while rank 0 "
                                   "waits in conv1.x, execution 8; rank 1 waits in fc.y, execution 8"));
  stopped.set_process("running");
  Hear(101, {stopped});
  EXPECT_THAT(StuckAt(101), ::testing::HasSubstr("rank 2 on b has said nothing for 1m40s"));
}

TEST_F(ProgressWatchTest, RanksOfLateHeartbeatsAreNotSilent) {
  for (int second = 1; second <= 90; ++second) Hear(second, {Pulse(0, 4, COMPUTING), Pulse(1, 4, WAITING, "x")});
  for (int second = 1; second <= 98; ++second) Hear(second, {Pulse(2, 4, WAITING, "x")});
  EXPECT_THAT(StuckAt(98), ::testing::HasSubstr("rank 0 on a has said nothing for 8s"));
  EXPECT_NE(StuckAt(69), "");
  lateness_ = absl::Seconds(8);
  EXPECT_EQ(StuckAt(69), "") << "a step of second 1 may be told 8 seconds later";
  EXPECT_THAT(StuckAt(98), ::testing::HasSubstr("rank 0 on a computes (training, after step 4)"));
}

TEST_F(ProgressWatchTest, FilesFirstStepsAndLongStepsGetMoreTime) {
  for (int second = 1; second <= 500; ++second) Hear(second, {Pulse(0, 0, COMPUTING), Pulse(1, 0, WAITING, "x")});
  EXPECT_EQ(StuckAt(500), "");
  EXPECT_THAT(StuckAt(602), ::testing::HasSubstr("no step was finished for 10m"));
  for (int second = 500; second <= 3000; ++second) Hear(second, {Pulse(0, 9, FILES), Pulse(1, 9, WAITING, "x")});
  EXPECT_EQ(StuckAt(3000), "");
  RankPulse slow = Pulse(0, 10, COMPUTING);
  slow.set_step_seconds(30);
  Hear(3001, {slow});
  EXPECT_EQ(StuckAt(3300), "");
  EXPECT_THAT(StuckAt(3302), ::testing::HasSubstr("no step was finished for 5m"));
  watch_.Excuse(absl::Seconds(3302));
  EXPECT_EQ(StuckAt(3303), "");
}

// The rank reported that it reads, and was stopped then.
TEST_F(ProgressWatchTest, AStoppedReaderIsFound) {
  RankPulse reader = Pulse(0, 3, FILES);
  for (int second = 1; second <= 100; ++second) {
    reader.set_age_seconds(second);
    Hear(second, {reader});
  }
  EXPECT_NE(StuckAt(100), "");
}

}  // namespace
}  // namespace adjoin
