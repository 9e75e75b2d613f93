#include "worker/session/remaining_time.h"

#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(RemainingTime, NothingIsKnownBeforeTheFirstStep) { EXPECT_EQ(RemainingTime().Seconds(100), 0); }

TEST(RemainingTime, EvenStepsGoOnAsTheyWere) {
  RemainingTime remaining;
  for (int i = 0; i < 1000; ++i) remaining.AddSteps(1, 0.25, 0);
  EXPECT_NEAR(remaining.Seconds(40), 10, 1e-9);
  EXPECT_EQ(remaining.Seconds(0), 0);
}

TEST(RemainingTime, SeveralStepsAtOnce) {
  RemainingTime remaining;
  for (int i = 0; i < 10; ++i) remaining.AddSteps(4, 2, 0);
  EXPECT_NEAR(remaining.Seconds(10), 5, 1e-9);
}

// 100 s at 10 steps a second, then 2 minutes at one step a second: the mean over all steps would say 0.2 s a step.
TEST(RemainingTime, FollowsWhatHasChanged) {
  RemainingTime remaining;
  for (int i = 0; i < 1000; ++i) remaining.AddSteps(1, 0.1, 0);
  for (int i = 0; i < 120; ++i) remaining.AddSteps(1, 1, 0);
  EXPECT_NEAR(remaining.Seconds(100), 100, 20);
}

TEST(RemainingTime, OneSlowStepOfManyChangesLittle) {
  RemainingTime remaining;
  for (int i = 0; i < 1000; ++i) remaining.AddSteps(1, 0.1, 0);
  remaining.AddSteps(1, 2, 0);
  EXPECT_NEAR(remaining.Seconds(100), 10, 1);
}

TEST(RemainingTime, StepsThatAreLongerThanItsMemory) {
  RemainingTime remaining;
  for (int i = 0; i < 3; ++i) remaining.AddSteps(1, 600, 0);
  EXPECT_NEAR(remaining.Seconds(2), 1200, 1e-3);
}

// A validation of a minute after every 600 steps of 0.1 s: also just after one, and just before the next.
TEST(RemainingTime, WhatComesBetweenStepsCountsAtItsMean) {
  RemainingTime remaining;
  for (int i = 1; i <= 6000; ++i) remaining.AddSteps(1, 0.1, i % 600 == 0 ? 60 : 0);
  EXPECT_NEAR(remaining.Seconds(6000), 1200, 1e-6);
  for (int i = 1; i < 600; ++i) remaining.AddSteps(1, 0.1, 0);
  EXPECT_NEAR(remaining.Seconds(6000), 1200, 60);
}

}  // namespace
}  // namespace adjoin
