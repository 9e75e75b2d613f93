#include "worker/training/session_activity.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(SessionActivityTest, ReportsTheActivityOfTheMoment) {
  SessionActivity activity;
  EXPECT_EQ(activity.Now().phase(), "starting");
  EXPECT_EQ(activity.Now().activity(), STARTING_UP);
  {
    const SessionActivity::Files outer(&activity);
    const SessionActivity::Files inner(&activity);
    EXPECT_EQ(activity.Now().activity(), FILES);
    const SessionActivity::Waits waits(&activity, "the end of the job");
    EXPECT_EQ(activity.Now().activity(), WAITING);
    EXPECT_EQ(activity.Now().operator_(), "the end of the job");
  }
  const SessionActivity::Files unwatched(nullptr);
  activity.StartPhase("training");
  activity.SetStep(7);
  EXPECT_EQ(activity.Now().activity(), COMPUTING);
  EXPECT_EQ(activity.Now().step(), 7u);
  activity.StartPhase("evaluating");
  EXPECT_EQ(activity.Now().step(), 0u);
  EXPECT_EQ(activity.Now().phase(), "evaluating");
}

TEST(SessionActivityTest, TakesTheMedianOfTheLastSteps) {
  SessionActivity activity;
  EXPECT_EQ(activity.Now().step_seconds(), 0);
  activity.AddTrainingStep(absl::Seconds(9));
  EXPECT_EQ(activity.Now().step_seconds(), 9);
  for (double seconds : {1, 2}) activity.AddTrainingStep(absl::Seconds(seconds));
  EXPECT_EQ(activity.Now().step_seconds(), 2);
  for (int i = 0; i < 32; ++i) activity.AddTrainingStep(absl::Seconds(i < 20 ? 4 : 5));
  EXPECT_EQ(activity.Now().step_seconds(), 4);
  for (int i = 0; i < 6; ++i) activity.AddTrainingStep(absl::Seconds(5));  // 14 of 4 s are left
  EXPECT_EQ(activity.Now().step_seconds(), 5);
}

TEST(SessionActivityTest, ReturnsEachPhaseUntilItIsClosed) {
  SessionActivity activity;
  std::vector<std::string> phases;
  absl::Mutex mutex;
  std::thread watcher([&] {
    uint64_t phase = 0;
    while (activity.AwaitPhase(&phase, Deadline::After(absl::Seconds(20)))) {
      absl::MutexLock lock(&mutex);
      phases.push_back(activity.Now().phase());
    }
  });
  for (const char* phase : {"training", "evaluating"}) {
    activity.StartPhase(phase);
    absl::MutexLock lock(&mutex);
    const auto seen = [&] { return !phases.empty() && phases.back() == phase; };
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&seen), absl::Seconds(10))) << phase;
  }
  activity.Close();
  watcher.join();
  uint64_t phase = 2;
  SessionActivity idle;
  idle.StartPhase("training");
  idle.StartPhase("evaluating");
  EXPECT_TRUE(idle.AwaitPhase(&phase, Deadline::After(absl::Milliseconds(1)))) << "its time is up";
}

}  // namespace
}  // namespace adjoin
