#include "worker/rank/lease_watch.h"
#include "base/boot_clock.h"

#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "base/monotonic_condition.h"

namespace adjoin {
namespace {

int64_t In(absl::Duration time) { return BootTimeNanos() + absl::ToInt64Nanoseconds(time); }

TEST(LeaseWatchTest, RunsOncePerLeaseThatEnds) {
  absl::Mutex mutex;
  MonotonicCondition changed;
  int over = 0;
  int64_t ended = 0;
  auto await = [&](int count) {
    absl::MutexLock lock(&mutex);
    return changed.Wait(mutex, Deadline::After(absl::Seconds(20)), [&] { return over >= count; });
  };
  LeaseWatch watch([&] {
    {
      absl::MutexLock lock(&mutex);
      ++over;
      ended = BootTimeNanos();
    }
    changed.NotifyAll();
  });
  watch.Renew(In(absl::Hours(1)));
  const int64_t until = In(absl::Milliseconds(30));
  watch.Renew(until);  // earlier than the last
  ASSERT_TRUE(await(1));
  EXPECT_GE(ended, until);
  watch.Renew(In(-absl::Seconds(1)));
  ASSERT_TRUE(await(2));
  watch.Renew(In(absl::Hours(1)));
  absl::MutexLock lock(&mutex);
  EXPECT_EQ(over, 2);
}

}  // namespace
}  // namespace adjoin
