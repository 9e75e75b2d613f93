// A rank that dies in mid-training, with real ranks: the job fails at once and by name, nothing is left behind, and the
// same daemons run the next job.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::IsEmpty;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

std::set<std::string> SharedMemory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

// Returns the segments that are there now, were not before, and stay. UCX names a segment only while it makes it, so
// names of other processes on this machine may show up here and go away.
std::set<std::string> NewSharedMemory(const std::set<std::string>& before, Deadline deadline) {
  std::set<std::string> added = SharedMemory();
  for (const std::string& name : before) added.erase(name);
  while (!added.empty() && !deadline.Expired()) {
    absl::SleepFor(absl::Milliseconds(10));
    std::set<std::string> now = SharedMemory();
    for (auto it = added.begin(); it != added.end();) it = now.count(*it) > 0 ? std::next(it) : added.erase(it);
  }
  return added;
}

class RankKilledTest : public ::testing::TestWithParam<int> {};

TEST_P(RankKilledTest, FailsTheJobByNameAndLeavesNothing) {
  const int nodes = GetParam();
  const std::set<std::string> shared_before = SharedMemory();
  auto started = LocalCluster::Start(nodes, 4 / nodes);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  std::string spec = ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto"));
  absl::StatusOr<std::string> job = cluster.Submit(absl::StrReplaceAll(spec, {{"epochs: 8", "epochs: 1000"}}));
  ASSERT_TRUE(job.ok()) << job.status();
  auto training = cluster.WaitUntil(
      *job, [](const JobSummary& s) { return s.progress().step() >= 3; }, Within(120));
  ASSERT_TRUE(training.ok()) << training.status();
  auto pids = cluster.RankPids(*job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  absl::StatusOr<DescribeJobResponse> described = cluster.Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();

  absl::Status killed = cluster.KillRank(*job, 2, SIGKILL);
  ASSERT_TRUE(killed.ok()) << killed;
  absl::StatusOr<JobSummary> end = cluster.WaitFor(*job, Within(30));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), FAILED);
  EXPECT_EQ(end->reason(),
            absl::StrCat("rank 2 on ", described->rank(2).worker(), " was killed by signal 9 (SIGKILL)"));

  ASSERT_TRUE(cluster.WaitUntilIdle(Within(30)).ok());
  for (pid_t pid : *pids) EXPECT_TRUE(kill(pid, 0) != 0 && errno == ESRCH) << pid;
  EXPECT_THAT(NewSharedMemory(shared_before, Within(30)), IsEmpty());

  absl::StatusOr<std::string> next = cluster.Submit(absl::StrReplaceAll(spec, {{"epochs: 8", "steps: 5"}}));
  ASSERT_TRUE(next.ok()) << next.status();
  end = cluster.WaitFor(*next, Within(120));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  EXPECT_TRUE(cluster.WaitUntilIdle(Within(30)).ok());
  EXPECT_EQ(cluster.Stop(), absl::OkStatus());
}

// Its peers see the failed rank die, and may report it first; its own reason counts.
TEST(RankFailedTest, ARanksOwnFailureIsTheJobsReason) {
  auto started = LocalCluster::Start(1, 4);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  // A folder that is not empty in the place of a result: rank 0 cannot publish the file, after its last step.
  std::filesystem::create_directories(std::filesystem::path(cluster.output_root()) /
                                      "lenet5-spatial/model.safetensors/in-the-way");
  const std::string spec = ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto"));
  absl::StatusOr<std::string> job = cluster.Submit(absl::StrReplaceAll(spec, {{"epochs: 8", "steps: 5"}}));
  ASSERT_TRUE(job.ok()) << job.status();
  absl::StatusOr<JobSummary> end = cluster.WaitFor(*job, Within(60));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), FAILED);
  EXPECT_THAT(end->reason(), ::testing::AllOf(::testing::StartsWith("rank 0 on worker-0 failed: "),
                                              ::testing::HasSubstr("model.safetensors")));
}

INSTANTIATE_TEST_SUITE_P(Nodes, RankKilledTest, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace adjoin
