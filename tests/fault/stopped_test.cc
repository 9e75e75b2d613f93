// Processes that a signal stops, as a debugger or a suspended machine does: found, named, and never run twice. The
// limits are those of a coordinator in a hurry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class StoppedTest : public ::testing::Test {
 protected:
  void StartCluster(int nodes, int slots, const std::vector<std::string>& flags = {}, int dead_after_seconds = 2) {
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    options.coordinator_flags = ImpatientCoordinator(dead_after_seconds);
    options.coordinator_flags.insert(options.coordinator_flags.end(), flags.begin(), flags.end());
    auto started = LocalCluster::Start(nodes, slots, options);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  std::string SubmitAndRun(const std::string& name, int ranks, const std::string& more) {
    absl::StatusOr<std::string> job = cluster_->Submit(FakeJob(name, ranks, more));
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return "";
    auto running = cluster_->WaitUntil(
        *job, [](const JobSummary& s) { return s.state() == RUNNING && s.progress().step() >= 3; }, Within(60));
    EXPECT_TRUE(running.ok()) << running.status();
    return *job;
  }
  void ExpectSucceeds(const std::string& job) {
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(job, Within(120));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    EXPECT_THAT(TwiceAtOnce(cluster_->output_root()), IsEmpty());
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(StoppedTest, ARankIsFoundByTheAbsenceOfProgressAndNamed) {
  StartCluster(2, 1, {"--progress-seconds", "2", "--first-step-seconds", "10"});
  const std::string job = SubmitAndRun("steps-100x30ms", 2, "restart { max_restarts: 1 }");
  ASSERT_EQ(cluster_->KillRank(job, 1, SIGSTOP), absl::OkStatus());
  auto restarted = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.attempts() == 2; }, Within(30));
  ASSERT_TRUE(restarted.ok()) << restarted.status();
  EXPECT_THAT(cluster_->Cli({"events", job}).out, AllOf(HasSubstr("rank 1 on worker-"), HasSubstr("stopped")));
  ExpectSucceeds(job);
}

TEST_F(StoppedTest, ADaemonsJobStartsElsewhereOnlyAfterItsLease) {
  StartCluster(2, 2);
  const std::string job = SubmitAndRun("steps-100x30ms", 2, "");
  absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job);
  ASSERT_TRUE(described.ok()) << described.status();
  ASSERT_EQ(described->rank(0).worker(), described->rank(1).worker()) << "both ranks fit on one node";
  const int node = described->rank(0).worker() == "worker-0" ? 0 : 1;
  const auto pids = cluster_->RankPids(job);
  ASSERT_TRUE(pids.ok()) << pids.status();

  const absl::Time stopped = absl::Now();
  cluster_->SignalWorker(node, SIGSTOP);
  auto lost = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.state() == PENDING; }, Within(30));
  ASSERT_TRUE(lost.ok()) << lost.status();
  EXPECT_THAT(lost->reason(), HasSubstr(absl::StrCat("worker-", node, " was lost")));
  EXPECT_LT(absl::Now() - stopped, absl::Seconds(9)) << "it was to be found after 2 s";
  auto again = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.attempts() == 2; }, Within(60));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_GT(absl::Now() - stopped, absl::Seconds(4)) << "its ranks could live until their lease of 6 s ran out";
  described = cluster_->Describe(job);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->job().restarts_counted(), 0u) << "a lost node is not the job's fault";
  cluster_->SignalWorker(node, SIGCONT);
  ExpectSucceeds(job);
  EXPECT_EQ(cluster_->WaitForWorkers(Within(30)), absl::OkStatus()) << "the daemon is one of them again";
  EXPECT_EQ(cluster_->WaitUntilIdle(Within(30)), absl::OkStatus());
}

TEST_F(StoppedTest, ADaemonThatGoesOnSoonKeepsItsJob) {
  StartCluster(1, 2, {}, /*dead_after_seconds=*/8);
  const std::string job = SubmitAndRun("steps-150x30ms", 2, "");
  cluster_->SignalWorker(0, SIGSTOP);
  absl::SleepFor(absl::Seconds(1));  // longer than the limit for a suspect, shorter than that for the dead
  cluster_->SignalWorker(0, SIGCONT);
  ExpectSucceeds(job);
  absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->job().attempts(), 1u);
}

}  // namespace
}  // namespace adjoin
