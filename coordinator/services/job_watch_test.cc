#include "coordinator/services/job_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

Deadline Now() { return Deadline::After(absl::ZeroDuration()); }
Deadline Long() { return Deadline::After(absl::Seconds(60)); }

TEST(JobWatchTest, AChangeBeforeTheWaitIsSeenOnce) {
  JobWatches watches;
  watches.Note("job-1", JobChange::kState);
  JobWatch watch(watches, "job-1");
  EXPECT_FALSE(watch.Wait(Now())) << "that was before it watched";
  watches.Note("job-1", JobChange::kProgress);
  watches.Note("job-1", JobChange::kState);
  EXPECT_TRUE(watch.Wait(Long()));
  EXPECT_FALSE(watch.Wait(Now()));
}

TEST(JobWatchTest, OtherJobsWakeNobody) {
  JobWatches watches;
  JobWatch first(watches, "job-1"), again(watches, "job-1"), other(watches, "job-12");
  watches.Note("job-1", JobChange::kState);
  EXPECT_FALSE(other.Wait(Now()));
  EXPECT_TRUE(first.Wait(Now()));
  EXPECT_TRUE(again.Wait(Now()));
}

TEST(JobWatchTest, ProgressWaitsUntilItIsCalmAndAStateDoesNot) {
  JobWatches watches;
  JobWatch watch(watches, "job-1");
  watches.Note("job-1", JobChange::kProgress);
  const Deadline calm = Deadline::After(absl::Milliseconds(50));
  EXPECT_TRUE(watch.Wait(calm, Long()));
  EXPECT_TRUE(calm.Expired());
  watches.Note("job-1", JobChange::kProgress);
  EXPECT_FALSE(watch.Wait(Long(), Now())) << "the deadline is first";
  watches.Note("job-1", JobChange::kState);
  EXPECT_TRUE(watch.Wait(Long(), Long()));
}

// Each thread follows a counter of its own, as FollowJob follows a job: look, and wait where it is not the end.
TEST(JobWatchTest, NobodyMissesTheLastChange) {
  constexpr int kJobs = 8, kChanges = 2000;
  JobWatches watches;
  std::vector<std::atomic<int>> value(kJobs);
  std::vector<std::thread> followers;
  std::atomic<int> late{0};
  for (int i = 0; i < 3 * kJobs; ++i) {
    followers.emplace_back([&, job = i % kJobs] {
      JobWatch watch(watches, absl::StrCat("job-", job));
      while (value[job] < kChanges) {
        if (!watch.Wait(Deadline::After(absl::ZeroDuration()), Long())) ++late;
      }
    });
  }
  std::vector<std::thread> writers;
  for (int job = 0; job < kJobs; ++job) {
    writers.emplace_back([&, job] {
      for (int change = 1; change <= kChanges; ++change) {
        value[job] = change;
        watches.Note(absl::StrCat("job-", job), change % 7 == 0 ? JobChange::kState : JobChange::kProgress);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (std::thread& follower : followers) follower.join();
  EXPECT_EQ(late, 0);
}

}  // namespace
}  // namespace adjoin
