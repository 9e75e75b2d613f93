// Nodes that are connected and yet good for nothing: their file systems hang, or what ranks need there is gone. Other
// nodes take the jobs, and nobody's jobs fail for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"
#include "worker/testing/held_file.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// Weights that fit the model of FakeJob.
void WriteWeights(const std::string& path) {
  const std::string header = R"({"fc.weight":{"dtype":"F32","shape":[10,784],"data_offsets":[0,31360]},)"
                             R"("fc.bias":{"dtype":"F32","shape":[10],"data_offsets":[31360,31400]}})";
  const uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << header << std::string(31400, '\0');
}

// A job that succeeds, with a folder of its own.
std::string Job(const std::string& folder, int ranks = 1, const std::string& more = "") {
  return FakeJob("succeed", ranks, absl::StrCat(more, " output_dir: \"out/", folder, "\""));
}

class UnfitNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int node = 0; node < 2; ++node) {
      const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
      roots_[node] = (fs::path(testing::TempDir()) / absl::StrCat(name, "-", node)).lexically_normal();
      fs::remove_all(roots_[node]);
      fs::create_directories(roots_[node]);
      options_.output_root[node] = roots_[node];
    }
    options_.rank_binary = "worker/testing/fake-rank";
    options_.coordinator_flags = ImpatientCoordinator();
    options_.worker_flags = {"--data-check-seconds", "5"};
  }
  void Start() {
    auto started = LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/2, options_);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  // Waits until a worker is in this state, and returns it.
  WorkerSummary AwaitState(int worker, const std::string& state) {
    WorkerSummary last;
    for (Deadline deadline = Within(40); !deadline.Expired();) {
      absl::StatusOr<ListJobsResponse> list = cluster_->ListJobs();
      if (list.ok() && list->worker_size() > worker) last = list->worker(worker);
      // A node on which starts failed may be set aside for a while after it is mended.
      if (last.state() == state || (state == "ready" && last.state() == "set aside")) return last;
      absl::SleepFor(absl::Milliseconds(50));
    }
    ADD_FAILURE() << last.DebugString();
    return last;
  }
  void ExpectSuccess(const std::string& job) {
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(job, Within(90));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    EXPECT_EQ(end->attempts(), 1u) << end->reason();
  }

  std::string roots_[2];
  LocalClusterOptions options_;
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(UnfitNodeTest, OneNodeWhoseChecksHangHoldsNobodysSubmissionUp) {
  HeldFile hangs(roots_[0] + "/start.safetensors");
  ASSERT_TRUE(hangs.ok());
  WriteWeights(roots_[1] + "/start.safetensors");
  Start();
  const absl::Time begin = absl::Now();
  std::vector<std::string> accepted(12);
  std::vector<std::thread> users;
  for (size_t i = 0; i < accepted.size(); ++i) {
    users.emplace_back([&, i] {
      const std::string weights = i % 2 == 0 ? "weights { from_output: \"start.safetensors\" }" : "";
      absl::StatusOr<std::string> job = cluster_->Submit(Job(absl::StrCat(i), 1, weights));
      accepted[i] = job.ok() ? *job : std::string(job.status().message());
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(60));
  for (const std::string& job : accepted) EXPECT_THAT(job, ::testing::StartsWith("job-"));
}

TEST_F(UnfitNodeTest, AFileThatHangsEverywhereIsNamedAndOthersGoThrough) {
  Start();
  HeldFile hangs(cluster_->data_root() + "/far.safetensors");
  ASSERT_TRUE(hangs.ok());
  absl::StatusOr<std::string> refused = std::string();
  std::vector<std::thread> slow;
  for (int i = 0; i < 8; ++i) {
    slow.emplace_back([&, i] {
      absl::StatusOr<std::string> job =
          cluster_->Submit(Job(absl::StrCat("slow-", i), 1, "weights { init_from: \"far.safetensors\" }"));
      if (i == 0) refused = job;
    });
  }
  for (int i = 0; i < 4; ++i) {
    absl::StatusOr<std::string> job = cluster_->Submit(Job(absl::StrCat("good-", i)));
    ASSERT_TRUE(job.ok()) << job.status();
    ExpectSuccess(*job);
  }
  for (std::thread& user : slow) user.join();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("worker-0: reading 'far.safetensors' (weights.init_from) did not end within 5 s"),
                    HasSubstr("worker-1: reading 'far.safetensors' (weights.init_from) did not end within 5 s")));
}

TEST_F(UnfitNodeTest, ANodeWithoutItsOutputRootGetsNoJobsUntilItIsMadeAgain) {
  Start();
  ExpectSuccess(*cluster_->Submit(Job("first")));
  fs::remove_all(roots_[0]);
  // Also before the daemon has noticed: what it refuses starts elsewhere.
  std::vector<std::string> jobs;
  for (int i = 0; i < 6; ++i) {
    absl::StatusOr<std::string> job =
        cluster_->Submit(Job(absl::StrCat("early-", i), 1, "restart { backoff_s: 0.05 }"));
    ASSERT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  for (const std::string& job : jobs) {
    absl::StatusOr<JobSummary> end = cluster_->WaitFor(job, Within(60));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  }
  const WorkerSummary unfit = AwaitState(0, "unfit");
  EXPECT_THAT(unfit.condition(), HasSubstr(absl::StrCat("the output root ", roots_[0], " is gone")));
  EXPECT_THAT(cluster_->Cli({"ps"}).out, AllOf(HasSubstr("CONDITION"), HasSubstr("is gone: make it again")));
  for (int i = 0; i < 4; ++i) ExpectSuccess(*cluster_->Submit(Job(absl::StrCat("late-", i))));

  fs::create_directories(roots_[0]);
  AwaitState(0, "ready");
  absl::StatusOr<std::string> wide = cluster_->Submit(Job("wide", 4));
  ASSERT_TRUE(wide.ok()) << wide.status();
  ExpectSuccess(*wide);
}

TEST_F(UnfitNodeTest, AJobThatOnlyABrokenNodeCouldRunWaitsAndTellsWhy) {
  Start();
  fs::remove_all(cluster_->folder() + "/worker-0");  // its state folder
  const WorkerSummary unfit = AwaitState(0, "unfit");
  EXPECT_THAT(unfit.condition(), HasSubstr("worker-0 is gone: restart the daemon"));
  absl::StatusOr<std::string> wide = cluster_->Submit(Job("wide", 4));
  ASSERT_TRUE(wide.ok()) << wide.status();
  auto waits = cluster_->WaitUntil(
      *wide, [](const JobSummary& job) { return job.reason().find("worker-0") != std::string::npos; }, Within(20));
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->state(), PENDING);
  EXPECT_THAT(waits->reason(), HasSubstr("1 worker can run no ranks (worker-0: the state folder"));
  ASSERT_EQ(cluster_->KillWorker(0), absl::OkStatus());
  ASSERT_EQ(cluster_->StartWorker(0), absl::OkStatus());
  ExpectSuccess(*wide);
}

}  // namespace
}  // namespace adjoin
