// A node that takes jobs and can run none of them, and a storm of kills while jobs start: neither costs anybody a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// Flags of a coordinator that finds everything within seconds, with its own limit of restarts.
std::vector<std::string> Flags() {
  return {"--heartbeat-seconds", "0.2", "--suspect-seconds", "0.7", "--worker-timeout-seconds", "2",
          "--reattach-seconds",  "4",   "--lease-seconds",   "6"};
}

// `steps`: of 20 ms each, that a job has.
std::vector<std::string> SubmitJobs(LocalCluster& cluster, int count, int steps, const std::string& more) {
  std::vector<std::string> jobs;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<std::string> job = cluster.Submit(FakeJob(absl::StrCat("steps-", steps, "x20ms-n", i), 1, more));
    EXPECT_TRUE(job.ok()) << job.status();
    if (job.ok()) jobs.push_back(*job);
  }
  return jobs;
}

void ExpectAllSucceed(LocalCluster& cluster, const std::vector<std::string>& jobs) {
  const Deadline deadline = Within(150);
  for (const std::string& job : jobs) {
    absl::StatusOr<JobSummary> end = cluster.WaitFor(job, deadline);
    ASSERT_TRUE(end.ok()) << job << ": " << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << job << ": " << end->reason();
  }
  EXPECT_THAT(TwiceAtOnce(cluster.output_root()), IsEmpty());
}

// A program of a rank that does nothing but fail on worker-2.
std::string ProgramThatFailsOnOneNode() {
  const std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/rank.sh");
  std::ofstream(path) << "#!/bin/sh\ncase \"$(pwd)\" in */worker-2*) exit 1;; esac\nexec "
                      << Runfile("worker/testing/fake-rank") << " \"$@\"\n";
  chmod(path.c_str(), 0755);
  return std::filesystem::path(path).lexically_relative(Runfile(""));
}

TEST(BrokenNodeTest, CostsTwoAttemptsAndNoJob) {
  LocalClusterOptions options;
  options.rank_binary = ProgramThatFailsOnOneNode();
  options.coordinator_flags = Flags();
  auto started = LocalCluster::Start(/*nodes=*/3, /*slots_per_node=*/2, options);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  const std::vector<std::string> jobs = SubmitJobs(cluster, 16, /*steps=*/100, "");
  ExpectAllSucceed(cluster, jobs);
  int lost = 0;
  std::string why;
  for (const std::string& job : jobs) {
    const LocalCluster::CliResult events = cluster.Cli({"events", job});
    if (!absl::StrContains(events.out, "attempt_ended")) continue;
    ++lost;
    why = events.out;
    EXPECT_THAT(events.out, HasSubstr("on worker-2 exited with code 1 without a result"));
    EXPECT_THAT(events.out, HasSubstr("does not count against the job"));
  }
  EXPECT_GT(lost, 0) << "the node was never used";
  EXPECT_THAT(lost, Le(2)) << why;
  EXPECT_THAT(cluster.Cli({"ps"}).out, HasSubstr("set aside"));
  EXPECT_EQ(cluster.Stop(), absl::OkStatus());
}

TEST(BrokenNodeTest, AStormOfKillsEndsNoJobThatMayRestart) {
  LocalClusterOptions options;
  options.rank_binary = "worker/testing/fake-rank";
  options.coordinator_flags = Flags();
  auto started = LocalCluster::Start(/*nodes=*/3, /*slots_per_node=*/2, options);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  const std::vector<std::string> jobs = SubmitJobs(cluster, 25, /*steps=*/50, "restart { max_restarts: 1000000 }");
  int kills = 0;
  for (const Deadline storm = Within(4); !storm.Expired();) {
    for (const auto& [pid, command] : ProcessesIn(cluster.folder())) {
      if (absl::StrContains(command, "fake-rank --socket") && kill(pid, SIGKILL) == 0) ++kills;
    }
    absl::SleepFor(absl::Milliseconds(20));  // the storm's own rhythm
  }
  ASSERT_EQ(cluster.KillWorker(0), absl::OkStatus());
  ASSERT_EQ(cluster.StartWorker(0), absl::OkStatus());
  EXPECT_GT(kills, 12);
  ExpectAllSucceed(cluster, jobs);
  EXPECT_EQ(cluster.Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
