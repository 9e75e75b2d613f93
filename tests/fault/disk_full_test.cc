// A full disk under the coordinator's store, a small tmpfs: submissions are refused with the reason, running jobs go
// on, and when there is room again all is as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class DiskFullTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can mount a tmpfs";
    folder_ = absl::StrCat(getenv("TEST_TMPDIR") == nullptr ? "/tmp" : getenv("TEST_TMPDIR"), "/small-disk");
    std::filesystem::create_directories(folder_);
    if (mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=4m") != 0) {
      GTEST_SKIP() << "a tmpfs cannot be mounted here: " << strerror(errno);
    }
    mounted_ = true;
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    options.coordinator_state = folder_;
    options.coordinator_flags = ImpatientCoordinator();
    auto started = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/4, options);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  void TearDown() override {
    cluster_.reset();
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  void FillDisk() {
    std::ofstream file(folder_ + "/filler", std::ios::binary | std::ios::app);
    const std::string block(512, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())) && file.flush()) {
    }
  }
  void FreeDisk() { std::filesystem::remove(folder_ + "/filler"); }

  std::string folder_;
  bool mounted_ = false;
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(DiskFullTest, SubmissionsAreRefusedAndJobsGoOn) {
  absl::StatusOr<std::string> job = cluster_->Submit(FakeJob("steps-1000x30ms", 2));
  ASSERT_TRUE(job.ok()) << job.status();
  auto running = cluster_->WaitUntil(
      *job, [](const JobSummary& s) { return s.progress().step() >= 3; }, Within(60));
  ASSERT_TRUE(running.ok()) << running.status();

  FillDisk();
  const absl::Time begin = absl::Now();
  absl::StatusOr<std::string> refused = cluster_->Submit(FakeJob("succeed", 1));
  for (Deadline deadline = Within(20); refused.ok() && !deadline.Expired();) {
    FillDisk();  // the log's own pages had room for this one
    refused = cluster_->Submit(FakeJob("succeed", 1));
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
  ASSERT_FALSE(refused.ok()) << "nothing may be acknowledged that is not on the disk";
  EXPECT_THAT(std::string(refused.status().message()), ::testing::AnyOf(HasSubstr("full"), HasSubstr("space")));
  EXPECT_THAT(cluster_->Cli({"ps"}).out, HasSubstr("running")) << "questions are answered";
  auto later = cluster_->WaitUntil(
      *job, [&](const JobSummary& s) { return s.progress().step() >= running->progress().step() + 20; }, Within(30));
  EXPECT_TRUE(later.ok()) << later.status();

  FreeDisk();
  absl::StatusOr<std::string> next = cluster_->Submit(FakeJob("succeed", 1), "after-the-flood");
  for (Deadline deadline = Within(30); !next.ok() && !deadline.Expired();) {
    absl::SleepFor(absl::Milliseconds(50));
    next = cluster_->Submit(FakeJob("succeed", 1), "after-the-flood");
  }
  ASSERT_TRUE(next.ok()) << next.status();
  for (const std::string& id : {*job, *next}) {
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(id, Within(120));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  }
  // The events while the disk was full are in the store now.
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->RestartCoordinator(), absl::OkStatus());
  EXPECT_EQ(cluster_->Describe(*job)->job().state(), SUCCEEDED);
  EXPECT_EQ(cluster_->Describe(*job)->job().attempts(), 1u);
}

}  // namespace
}  // namespace adjoin
