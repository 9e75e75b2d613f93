// Wall clocks that are set forwards and backwards by hours while jobs run: no process is declared dead for it, and one
// that dies afterwards is found in time. The daemons see the clock of libfaketime, which leaves the monotonic clock
// alone; where that library is missing the test is skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::IsEmpty;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

std::string FakeTime() {
  for (const char* machine : {"x86_64-linux-gnu", "aarch64-linux-gnu"}) {
    std::string path = absl::StrCat("/usr/lib/", machine, "/faketime/libfaketimeMT.so.1");
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

class ClockJumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FakeTime().empty()) GTEST_SKIP() << "needs the package libfaketime";
    SetClock("+0");
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    options.coordinator_flags = ImpatientCoordinator();
    ProgramOptions faked;
    faked.environment = {"LD_PRELOAD=" + FakeTime(), "FAKETIME_TIMESTAMP_FILE=" + clock_, "FAKETIME_NO_CACHE=1",
                         "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1"};
    options.coordinator = faked;
    options.worker[0] = options.worker[1] = faked;
    auto started = LocalCluster::Start(2, 2, options);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  // "+2h", "-3h": against the true time.
  void SetClock(const std::string& offset) {
    std::ofstream(clock_ + ".new") << offset << "\n";
    std::filesystem::rename(clock_ + ".new", clock_);
  }
  absl::StatusOr<JobSummary> StepsOn(const std::string& job, uint64_t steps) {
    auto now = cluster_->Describe(job);
    if (!now.ok()) return now.status();
    const uint64_t upto = now->job().progress().step() + steps;
    return cluster_->WaitUntil(
        job, [&](const JobSummary& s) { return s.progress().step() >= upto; }, Within(30));
  }

  const std::string clock_ = ::testing::TempDir() + "/clock";
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(ClockJumpTest, JumpsLoseNoProcessAndHideNoDeath) {
  absl::StatusOr<std::string> job = cluster_->Submit(FakeJob("steps-100000x10ms", 4));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(cluster_
                  ->WaitUntil(
                      *job, [](const JobSummary& s) { return s.state() == RUNNING; }, Within(60))
                  .ok());
  for (const char* offset : {"+2h", "-3h", "+0"}) {
    SetClock(offset);
    // Longer than any limit of this coordinator.
    absl::StatusOr<JobSummary> on = StepsOn(*job, 800);
    ASSERT_TRUE(on.ok()) << offset << ": " << on.status();
    EXPECT_EQ(on->attempts(), 1) << offset << ": " << on->reason();
  }
  SetClock("-3h");
  ASSERT_TRUE(StepsOn(*job, 20).ok());
  ASSERT_EQ(cluster_->KillWorker(1), absl::OkStatus());
  auto ended = cluster_->WaitUntil(
      *job, [](const JobSummary& s) { return s.state() == PENDING; }, Within(30));
  ASSERT_TRUE(ended.ok()) << ended.status();
  ASSERT_EQ(cluster_->StartWorker(1), absl::OkStatus());
  auto again = cluster_->WaitUntil(
      *job, [](const JobSummary& s) { return s.attempts() == 2 && s.state() == RUNNING; }, Within(30));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(TwiceAtOnce(cluster_->output_root()), IsEmpty());
}

}  // namespace
}  // namespace adjoin
