#include "base/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/deadline.h"

namespace adjoin {
namespace {

TEST(WatchdogTest, CallsOnceInAScopeThatLastsTooLong) {
  absl::Notification called;
  std::atomic<int> calls{0};
  {
    const Watchdog late(absl::Milliseconds(1), [&] {
      if (++calls == 1) called.Notify();
    });
    ASSERT_TRUE(called.WaitForNotificationWithTimeout(absl::Seconds(60)));
  }
  EXPECT_EQ(calls, 1);
}

TEST(WatchdogTest, AScopeThatEndsInTimeWaitsForNothing) {
  const Deadline soon = Deadline::After(absl::Seconds(60));
  {
    const Watchdog late(absl::Hours(1), [] { ADD_FAILURE() << "it is not late"; });
  }
  EXPECT_FALSE(soon.Expired());
}

}  // namespace
}  // namespace adjoin
