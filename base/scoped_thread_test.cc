#include "base/scoped_thread.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/deadline.h"

namespace adjoin {
namespace {

TEST(ScopedThreadTest, ItsScopesEndEndsAWait) {
  const Deadline soon = Deadline::After(absl::Seconds(60));
  bool ended = false;
  {
    const ScopedThread waits(
        [&ended](ScopedThread& thread) { ended = thread.EndsBefore(Deadline::After(absl::Hours(1))); });
  }
  EXPECT_TRUE(ended);
  EXPECT_FALSE(soon.Expired());
}

TEST(ScopedThreadTest, ItGoesOnAtEachDeadlineUntilItsScopeEnds) {
  absl::Notification thrice;
  int rounds = 0;
  bool returned = false;
  {
    const ScopedThread counts([&](ScopedThread& thread) {
      while (!thread.EndsBefore(Deadline::After(absl::Milliseconds(1)))) {
        if (++rounds == 3) thrice.Notify();
      }
      returned = true;
    });
    ASSERT_TRUE(thrice.WaitForNotificationWithTimeout(absl::Seconds(60)));
  }
  EXPECT_GE(rounds, 3);
  EXPECT_TRUE(returned) << "the destructor waits";
}

}  // namespace
}  // namespace adjoin
