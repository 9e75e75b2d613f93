// Jobs of real ranks that are killed, drained or out of disk go on from their checkpoints, and publish the losses of an
// undisturbed run, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// LeNet-5 on 4 ranks that share the batch.
std::string Job(const std::string& name, int steps, int every_steps = 7) {
  return absl::StrReplaceAll(
      ReadFile(Runfile("examples/mnist/lenet5-sync-sgd.textproto")),
      {{"output_dir: \"lenet5-sync-sgd\"",
        absl::StrCat("output_dir: \"", name, "\" checkpoint { dir: \"", name, "-ckpt\" every_steps: ", every_steps,
                     " keep_last: 2 }",
                     " restart { max_restarts: 20 backoff_s: 0.1 on: \"rank_lost\" on: \"node_lost\" }")},
       {"sgd { lr: 0.01 momentum: 0.9 }", "adam { lr: 0.001 }"},
       {"epochs: 8", absl::StrCat("steps: ", steps)}});
}

// The loss of each step as it is written, all steps in order and each once; or what is wrong.
std::vector<std::string> Losses(const LocalCluster& cluster, const std::string& name) {
  std::vector<std::string> losses;
  std::ifstream in(absl::StrCat(cluster.output_root(), "/", name, "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"type\": \"step\"") == std::string::npos) continue;
    const std::string step = absl::StrCat("\"step\": ", losses.size() + 1, ",");
    if (line.find(step) == std::string::npos) return {absl::StrCat("not step ", losses.size() + 1, ": ", line)};
    const size_t begin = line.find("\"loss\": ");
    losses.push_back(line.substr(begin, line.find(',', begin) - begin));
  }
  return losses;
}

class CheckpointedJobTest : public ::testing::Test {
 protected:
  void Start(int nodes, int slots, LocalClusterOptions options = {}) {
    auto started = LocalCluster::Start(nodes, slots, std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  // Runs it to its end, undisturbed.
  void RunWhole(const std::string& spec) {
    const absl::StatusOr<std::string> job = cluster_->Submit(spec);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(240));
    ASSERT_TRUE(end.ok()) << end.status();
    ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
  }
  // Waits until it trains and has done so many steps.
  absl::Status AwaitStep(const std::string& job, uint64_t step) {
    return cluster_
        ->WaitUntil(
            job,
            [&](const JobSummary& s) {
              return s.state() == RUNNING && s.progress().phase() == "training" && s.progress().step() >= step;
            },
            Within(240))
        .status();
  }
  std::string Events(const std::string& job) { return cluster_->Cli({"events", job}).out; }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(CheckpointedJobTest, AJobKilledBetweenCheckpointsGoesOnBitForBit) {
  constexpr int kSteps = 900;  // progress comes once a second: enough that none of the kills comes too late
  const uint64_t seed = TestSeed(20);
  std::mt19937_64 random(seed);
  Start(1, 4);
  RunWhole(Job("whole", kSteps));
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("killed", kSteps));
  ASSERT_TRUE(job.ok()) << job.status();
  for (uint64_t step : {10 + random() % 10, 100 + random() % 50, 250 + random() % 50}) {
    ASSERT_EQ(AwaitStep(*job, step), absl::OkStatus()) << "seed " << seed << Events(*job);
    const uint64_t epoch = cluster_->Describe(*job).value().job().epoch();
    const absl::Status killed = cluster_->KillRank(*job, static_cast<int>(random() % 4), SIGKILL);
    ASSERT_TRUE(killed.ok()) << killed;
    // The next attempt has begun before the next kill is aimed.
    ASSERT_TRUE(cluster_
                    ->WaitUntil(
                        *job, [&](const JobSummary& s) { return s.epoch() > epoch; }, Within(60))
                    .ok());
  }
  const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(240));
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->state(), SUCCEEDED) << end->reason() << Events(*job);
  EXPECT_THAT(Events(*job), AllOf(HasSubstr("resumed"), HasSubstr("from the checkpoint of step")));
  EXPECT_THAT(cluster_->Cli({"describe", *job}).out, HasSubstr("from the checkpoint of step"));
  ASSERT_EQ(Losses(*cluster_, "whole").size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(Losses(*cluster_, "killed"), Losses(*cluster_, "whole"));
  EXPECT_EQ(ReadFile(cluster_->output_root() + "/killed/model.safetensors"),
            ReadFile(cluster_->output_root() + "/whole/model.safetensors"));
}

TEST_F(CheckpointedJobTest, ADrainedNodesJobGoesOnElsewhereAndLosesNoStep) {
  constexpr int kSteps = 500;
  Start(2, 4);
  RunWhole(Job("whole", kSteps));
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("drained", kSteps));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(AwaitStep(*job, 10), absl::OkStatus());
  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  cluster_->SignalWorker(described->rank(0).worker() == "worker-0" ? 0 : 1, SIGTERM);
  const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(240));
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->state(), SUCCEEDED) << end->reason() << Events(*job);
  EXPECT_EQ(end->attempts(), 2u);
  EXPECT_EQ(end->restarts_counted(), 0u);
  EXPECT_EQ(Losses(*cluster_, "drained"), Losses(*cluster_, "whole"));
  EXPECT_THAT(Events(*job), HasSubstr("from the checkpoint of step"));
}

TEST_F(CheckpointedJobTest, NodesThatDoNotShareTheirOutputAreNotMixed) {
  const std::string other = absl::StrCat(::testing::TempDir(), "/other-output");
  std::filesystem::create_directories(other);
  LocalClusterOptions options;
  options.output_root[1] = other;
  Start(2, 2, options);
  const absl::Status refused = cluster_->Submit(Job("apart", 5)).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("the job needs 4 slots on nodes that have one --output-root"),
                    HasSubstr("worker-0 (2 slots)"), HasSubstr("worker-1 (2 slots)"), HasSubstr("right would be")));
  RunWhole(
      absl::StrReplaceAll(ReadFile(Runfile("examples/mnist/lenet5-sync-sgd.textproto")), {{"epochs: 8", "steps: 2"}}));
}

// The output root is a small tmpfs.
TEST_F(CheckpointedJobTest, AFullDiskStopsNoTraining) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a tmpfs";
  Start(1, 4);
  const std::string root = cluster_->output_root();
  if (mount("tmpfs", root.c_str(), "tmpfs", 0, "size=6m") != 0) {
    GTEST_SKIP() << "a tmpfs cannot be mounted here: " << strerror(errno);
  }
  // A daemon below whose output root another file system appears gets no ranks until it is started anew.
  ASSERT_EQ(cluster_->KillWorker(0), absl::OkStatus());
  ASSERT_EQ(cluster_->StartWorker(0), absl::OkStatus());
  ASSERT_EQ(cluster_->WaitForWorkers(Within(60)), absl::OkStatus());
  constexpr int kSteps = 1000;  // many more than pass meanwhile
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("full", kSteps, /*every_steps=*/20));
  EXPECT_TRUE(job.ok()) << job.status();
  if (job.ok()) {
    EXPECT_EQ(AwaitStep(*job, 30), absl::OkStatus());
    std::ofstream filler(root + "/filler", std::ios::binary);
    const std::string block(512, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())) && filler.flush()) {
    }
    const Deadline deadline = Within(60);
    while (cluster_->Cli({"logs", *job}).out.find("WARNING: the checkpoint") == std::string::npos &&
           !deadline.Expired()) {
    }
    filler.close();
    std::filesystem::remove(root + "/filler");
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(240));
    EXPECT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end.ok() ? end->state() : FAILED, SUCCEEDED) << (end.ok() ? end->reason() : "");
    EXPECT_THAT(cluster_->Cli({"logs", *job}).out,
                AllOf(HasSubstr("WARNING: the checkpoint of step"), HasSubstr("No space left on device"),
                      HasSubstr("checkpoint: full-ckpt/step-0000001000")));
    EXPECT_EQ(Losses(*cluster_, "full").size(), static_cast<size_t>(kSteps)) << "no line was lost";
  }
  cluster_.reset();
  umount2(root.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace adjoin
