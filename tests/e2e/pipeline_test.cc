// A job whose stages are at different micro-batches, through a real coordinator and real daemons: the losses of one
// micro-batch after the other, also where a rank is killed in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/harness/local_cluster.h"
#include "worker/trace/read_trace.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

using Json = nlohmann::json;

constexpr char kStages[] = R"job(name: "stages" kind: TRAIN ranks: 2 seed: 1
layout { name: "first" partition: [1, 1] rank: 0 }
layout { name: "second" partition: [1, 1] rank: 1 }
layer { name: "a" input: "x" x: "first" linear { out_features: 16 } }
layer { name: "tanh" activation { fn: "tanh" } }
layer { name: "drop" dropout { p: 0.25 } }
layer { name: "to" y: "second" repartition {} }
layer { name: "b" linear { out_features: 2 } }
loss { kind: "mse" input: "b" target: "y" }
dataset { name: "train" shuffle: true
  field { name: "x" synthetic { kind: "normal" samples: 64 } shape: [3] }
  field { name: "y" synthetic { kind: "normal" samples: 64 } shape: [2] } }
train { dataset: "train" batch: 16 microbatches: 8 microbatches_in_flight: IN_FLIGHT steps: STEPS
  optimizer { sgd { lr: 0.01 momentum: 0.9 } } }
checkpoint { dir: "DIR-ckpt" every_steps: 20 keep_last: 2 }
restart { max_restarts: 3 }
output_dir: "DIR"
)job";

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/2);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  static std::string Job(int in_flight, int64_t steps, const std::string& dir) {
    return absl::StrReplaceAll(kStages,
                               {{"IN_FLIGHT", absl::StrCat(in_flight)}, {"STEPS", absl::StrCat(steps)}, {"DIR", dir}});
  }
  // By step, of a file below the output root.
  std::map<int64_t, double> Losses(const std::string& folder) const {
    std::map<int64_t, double> losses;
    std::ifstream in(absl::StrCat(cluster_->output_root(), "/", folder, "/metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!entry.is_discarded() && entry["type"] == "step") losses[entry["step"]] = entry["loss"];
    }
    return losses;
  }
  std::map<int64_t, double> Train(int in_flight, int64_t steps, const std::string& dir) {
    const absl::StatusOr<std::string> job = cluster_->Submit(Job(in_flight, steps, dir));
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return {};
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(120));
    EXPECT_TRUE(end.ok()) << end.status();
    if (!end.ok()) return {};
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    return Losses(dir);
  }
  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(PipelineTest, AKilledRankEndsTheAttemptAndTheNextHasTheSameLosses) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job(8, 1000000, "out"));
  ASSERT_TRUE(job.ok()) << job.status();
  absl::StatusOr<JobSummary> running = cluster_->WaitUntil(
      *job, [](const JobSummary& s) { return s.state() == RUNNING && s.progress().checkpoint_step() >= 40; },
      Within(120));
  ASSERT_TRUE(running.ok()) << running.status();
  const uint64_t first = running->epoch();
  // Steps follow each other without a pause, so this is in one.
  ASSERT_EQ(cluster_->KillRank(*job, 0, SIGKILL), absl::OkStatus());
  running = cluster_->WaitUntil(
      *job,
      [&](const JobSummary& s) {
        return s.epoch() > first && s.state() == RUNNING && s.progress().step() >= s.progress().resumed_step() + 20;
      },
      Within(120));
  ASSERT_TRUE(running.ok()) << running.status();
  const int64_t resumed = static_cast<int64_t>(running->progress().resumed_step());
  ASSERT_GE(resumed, 40);
  const LocalCluster::CliResult events = cluster_->Cli({"events", *job});
  EXPECT_THAT(events.out, HasSubstr("rank 0 on worker-0 was killed by signal 9 (SIGKILL)"));
  ASSERT_EQ(cluster_->Cli({"cancel", *job}).exit_code, 0);
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());

  const std::map<int64_t, double> losses = Losses(absl::StrCat("out/attempt-", running->epoch()));
  const std::map<int64_t, double> serial = Train(1, resumed + 20, "serial");
  ASSERT_EQ(serial.size(), static_cast<size_t>(resumed + 20));
  int compared = 0;
  for (const auto& [step, loss] : serial) {
    const auto found = losses.find(step);
    if (step > resumed) {
      ASSERT_NE(found, losses.end()) << step;
      ++compared;
    }
    if (found != losses.end()) {
      EXPECT_EQ(found->second, loss) << "step " << step;
    }
  }
  EXPECT_EQ(compared, 20);
}

TEST_F(PipelineTest, StepsAreTracedWhereAskedFor) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job(8, 1000000, "out"));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto running = cluster_->WaitUntil(
      *job, [](const JobSummary& s) { return s.state() == RUNNING && s.progress().step() > 0; }, Within(120));
  ASSERT_TRUE(running.ok()) << running.status();
  const LocalCluster::CliResult trace =
      cluster_->Cli({"trace", *job, "--steps", "3", "-O", cluster_->folder() + "/my.pftrace"});
  EXPECT_EQ(trace.exit_code, 0) << trace.err;
  EXPECT_THAT(trace.out, HasSubstr("the ranks' times agree within"));
  std::ifstream file(cluster_->folder() + "/my.pftrace", std::ios::binary);
  const auto read = ReadTrace::Of({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->messages.empty());
  ASSERT_EQ(cluster_->Cli({"cancel", *job}).exit_code, 0);
}

}  // namespace
}  // namespace adjoin
