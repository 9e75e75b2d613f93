#include "base/wait_unless_gone.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"

namespace adjoin {
namespace {

constexpr auto kHour = absl::Hours(1);

bool Never() { return false; }

class WaitUnlessGoneTest : public ::testing::Test {
 protected:
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool done_ = false;
};

TEST_F(WaitUnlessGoneTest, NobodyIsAskedWhereItHolds) {
  absl::MutexLock lock(&mutex_);
  const auto gone = [] {
    ADD_FAILURE() << "it holds";
    return true;
  };
  EXPECT_EQ(WaitUnlessGone(changed_, mutex_, Deadline::After(absl::ZeroDuration()), gone, [] { return true; }),
            WaitEnd::kHolds);
  EXPECT_TRUE(WaitUntilGone(changed_, mutex_, gone, [] { return true; }));
}

TEST_F(WaitUnlessGoneTest, EndsWithTheDeadlineOrWithTheCaller) {
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(WaitUnlessGone(changed_, mutex_, Deadline::After(absl::Milliseconds(1)), &Never, &Never),
            WaitEnd::kExpired);
  int asked = 0;
  const auto gone = [&asked] { return ++asked == 3; };
  EXPECT_EQ(WaitUnlessGone(changed_, mutex_, Deadline::After(kHour), gone, &Never), WaitEnd::kGone);
  EXPECT_EQ(asked, 3);
  EXPECT_FALSE(WaitUntilGone(
      changed_, mutex_, [] { return true; }, &Never));
}

TEST_F(WaitUnlessGoneTest, AChangeWakesIt) {
  absl::Notification waits;
  std::thread changer([&] {
    waits.WaitForNotification();
    {
      absl::MutexLock lock(&mutex_);
      done_ = true;
    }
    changed_.NotifyAll();
  });
  const Deadline soon = Deadline::After(absl::Seconds(20));
  {
    absl::MutexLock lock(&mutex_);
    bool asked = false;
    int looks_after = 0;
    // The lock is free while the caller is asked.
    const auto gone = [&] {
      absl::MutexLock own(&mutex_);
      asked = true;
      return false;
    };
    // The second time after that it looks from within its wait, and keeps the lock until it sleeps.
    const auto holds = [&] {
      if (asked && ++looks_after == 2) waits.Notify();
      return done_;
    };
    EXPECT_EQ(
        WaitUnlessGone(changed_, mutex_, Deadline::After(kHour), gone, holds, /*between_looks=*/absl::Seconds(30)),
        WaitEnd::kHolds);
  }
  EXPECT_FALSE(soon.Expired()) << "it found the change by itself";
  changer.join();
}

TEST_F(WaitUnlessGoneTest, WhatHoldsCountsBeforeThatTheCallerIsGone) {
  absl::MutexLock lock(&mutex_);
  const auto gone = [&] {
    absl::MutexLock own(&mutex_);
    done_ = true;
    return true;
  };
  EXPECT_EQ(WaitUnlessGone(changed_, mutex_, Deadline::After(kHour), gone, [&] { return done_; }), WaitEnd::kHolds);
}

}  // namespace
}  // namespace adjoin
