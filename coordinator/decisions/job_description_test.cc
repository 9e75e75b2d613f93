// Jobs of thousands of ranks are described in steps, between which anything may happen to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "coordinator/decisions/coordination_fixture.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRanks = 2500;

class JobDescriptionTest : public CoordinationTest {
 protected:
  std::string StartLargeJob() {
    Connect(1, "worker-0", kRanks);
    JobSpec spec = Spec("net", kRanks);
    spec.mutable_restart()->set_max_restarts(1);
    const std::string job = Submit(spec);
    EXPECT_EQ(Job(job).state(), STARTING);
    return job;
  }
  // Ends an attempt of which no rank has begun to train.
  void EndAttempt(const std::string& job) {
    Ended(1, job, 0, "was killed by signal 9 (SIGKILL)");
    Cleared(1, job);
    Tick();
  }
};

TEST_F(JobDescriptionTest, HasEachRankOnceAndNoStepHasMany) {
  const std::string job = StartLargeJob();
  for (uint32_t rank = 0; rank < kRanks; rank += 100) Ready(1, job, rank);
  JobDescription made{JobReference(job)};
  int steps = 1;
  for (int before = 0; !service_->Continue(made); ++steps) {
    EXPECT_LE(made.response.rank_size() - before, 1000);
    EXPECT_GT(made.response.rank_size(), before);
    before = made.response.rank_size();
  }
  EXPECT_EQ(made.status, absl::OkStatus());
  EXPECT_EQ(steps, 4) << "64, 1000, 1000 and the rest";
  ASSERT_EQ(made.response.rank_size(), kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(made.response.rank(rank).rank(), rank);
    EXPECT_EQ(made.response.rank(rank).worker(), "worker-0");
    EXPECT_EQ(made.response.rank(rank).state() == made.response.rank(1).state(), rank % 100 != 0) << rank;
  }
  EXPECT_EQ(made.response.job().job_id(), job);
  ASSERT_NE(made.spec, nullptr);
  EXPECT_EQ(made.spec->ranks(), kRanks);
}

TEST_F(JobDescriptionTest, WhereTheNextAttemptBeginsMeanwhileTheRanksAreItsOwn) {
  const std::string job = StartLargeJob();
  for (uint32_t rank = 0; rank < kRanks; ++rank) Ready(1, job, rank);
  JobDescription made{JobReference(job)};
  ASSERT_FALSE(service_->Continue(made));
  ASSERT_FALSE(service_->Continue(made));
  const std::string ready = made.response.rank(0).state();
  const uint64_t epoch = made.response.header().epoch();
  EndAttempt(job);
  while (!service_->Continue(made)) {
  }
  EXPECT_GT(made.response.header().epoch(), epoch);
  ASSERT_EQ(made.response.rank_size(), kRanks);
  for (const RankStatus& rank : made.response.rank()) EXPECT_NE(rank.state(), ready) << rank.rank();
}

TEST_F(JobDescriptionTest, WhyJobsWaitIsFoundOutOnceForAllWhoAskInATenthOfASecond) {
  Connect(1, "worker-0", 1);
  const std::string running = Submit(Spec("running", 1));
  const std::string waits = Submit(Spec("waits", 2));
  const std::string larger = Submit(Spec("larger", 9));
  const auto reason = [&](const std::string& job) { return service_->RecentSummary(job)->reason(); };
  EXPECT_EQ(reason(waits), Job(waits).reason());
  Connect(2, "worker-1", 5);
  EXPECT_EQ(service_->RecentSummary(waits)->state(), STARTING) << "what it is itself is never old";
  EXPECT_THAT(Job(larger).reason(), HasSubstr("needs 9 slots, 3 of 6 free on 2 workers"));
  EXPECT_THAT(reason(larger), HasSubstr("needs 9 slots, 0 of 1 free on 1 worker;"));
  now_ += absl::Milliseconds(101);
  EXPECT_EQ(reason(larger), Job(larger).reason());
  EXPECT_EQ(service_->RecentSummary("job-99").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobDescriptionTest, AJobThatIsForgottenMeanwhileIsAnError) {
  options_.keep_jobs = 1;
  Restart();
  const std::string job = StartLargeJob();
  JobDescription made{JobReference(job)};
  ASSERT_FALSE(service_->Continue(made));
  ASSERT_TRUE(service_->Cancel(job).ok());
  Settle();
  Cleared(1, job);
  for (int i = 0; i < 3; ++i) {
    const std::string other = Submit(Spec(absl::StrCat("other-", i), 1));
    ASSERT_TRUE(service_->Cancel(other).ok());
    Settle();
  }
  ASSERT_TRUE(service_->Continue(made));
  EXPECT_EQ(made.status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace adjoin
