// The event file of a job through a real coordinator and real daemons: while it runs, over an attempt that goes on from
// a checkpoint, and among its results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/e2e/line_job.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::SizeIs;

using Json = nlohmann::json;

constexpr char kEvents[] = "events.out.tfevents.adjoin";

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class TensorboardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/2);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  std::string Job(const std::string& steps, const std::string& train, const std::string& more) {
    return absl::StrReplaceAll(kLineJob, {{"steps: 3", absl::StrCat("steps: ", steps, " ", train)},
                                          {"output_dir: \"models/line\"", absl::StrCat("output_dir: \"out\" ", more)}});
  }
  // The events of a file below the output root, as a reader that was written from the format's documentation has them.
  std::vector<Json> Events(const std::string& file) {
    auto reader = ChildProgram::Start({"/usr/bin/python3", Runfile("worker/tensorboard/read_events.py"),
                                       absl::StrCat(cluster_->output_root(), "/", file)},
                                      {}, absl::StrCat(cluster_->folder(), "/events-", ++readers_));
    EXPECT_TRUE(reader.ok()) << reader.status();
    if (!reader.ok()) return {};
    const auto code = (*reader)->Wait(Within(60));
    EXPECT_TRUE(code.ok() && *code == 0) << (*reader)->Errors();
    std::vector<Json> events;
    for (absl::string_view line : absl::StrSplit((*reader)->Output(), '\n', absl::SkipEmpty())) {
      events.push_back(Json::parse(std::string(line)));
    }
    return events;
  }
  int readers_ = 0;
  std::unique_ptr<LocalCluster> cluster_;
};

std::vector<int> StepsWith(const std::vector<Json>& events, const std::string& tag) {
  std::vector<int> steps;
  for (const Json& event : events) {
    if (event.contains("values") && event["values"].contains(tag)) steps.push_back(event["step"]);
  }
  return steps;
}

TEST_F(TensorboardTest, ResultsHaveTheScalarsOfTheMetrics) {
  const absl::StatusOr<std::string> job = cluster_->Submit(
      Job("3", "tensorboard: true validate_on: \"train\"", "evaluate { dataset: \"train\" metric: \"mse\" }"));
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(120));
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->state(), SUCCEEDED) << end->reason();
  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_THAT(described->artifact(), Contains(kEvents));

  const std::vector<Json> events = Events(absl::StrCat("out/", kEvents));
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0]["file_version"], "brain.Event:2");
  std::vector<float> losses;
  double time = 0;
  for (const Json& event : events) {
    EXPECT_GE(event["wall_time"].get<double>(), time) << "in order";
    time = event["wall_time"];
    if (event.contains("values") && event["values"].contains("train/loss"))
      losses.push_back(event["values"]["train/loss"]);
  }
  const LocalCluster::CliResult metrics = cluster_->Cli({"metrics", *job, "--type", "step"});
  std::vector<float> expected;
  for (absl::string_view line : absl::StrSplit(metrics.out, '\n', absl::SkipEmpty())) {
    expected.push_back(static_cast<float>(Json::parse(std::string(line))["loss"].get<double>()));
  }
  ASSERT_THAT(expected, SizeIs(3));
  EXPECT_EQ(losses, expected);
  for (const char* tag : {"train/lr", "speed/steps_per_second", "speed/samples_per_second"}) {
    EXPECT_EQ(StepsWith(events, tag), (std::vector<int>{1, 2, 3})) << tag;
  }
  EXPECT_EQ(StepsWith(events, "validation/loss").back(), 3);
  EXPECT_EQ(StepsWith(events, "evaluation/mse"), std::vector<int>{3});
  EXPECT_EQ(StepsWith(events, "memory/peak_resident_bytes").back(), 3);
}

TEST_F(TensorboardTest, AnAttemptThatGoesOnHasEachStepOnce) {
  const absl::StatusOr<std::string> job =
      cluster_->Submit(Job("1000000", "tensorboard: true",
                           "checkpoint { dir: \"ckpt\" every_steps: 20 keep_last: 2 } restart { max_restarts: 3 }"));
  ASSERT_TRUE(job.ok()) << job.status();
  absl::StatusOr<JobSummary> running = cluster_->WaitUntil(
      *job, [](const JobSummary& s) { return s.state() == RUNNING && s.progress().checkpoint_step() >= 40; },
      Within(120));
  ASSERT_TRUE(running.ok()) << running.status();
  const uint64_t first = running->epoch();
  ASSERT_EQ(cluster_->KillRank(*job, 1, SIGKILL), absl::OkStatus());
  running = cluster_->WaitUntil(
      *job,
      [&](const JobSummary& s) {
        return s.epoch() > first && s.state() == RUNNING && s.progress().step() >= s.progress().resumed_step() + 20;
      },
      Within(120));
  ASSERT_TRUE(running.ok()) << running.status();
  const uint64_t resumed = running->progress().resumed_step();
  ASSERT_GE(resumed, 40);
  ASSERT_EQ(cluster_->Cli({"cancel", *job}).exit_code, 0);
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());

  const std::vector<Json> events = Events(absl::StrCat("out/attempt-", running->epoch(), "/", kEvents));
  const std::vector<int> steps = StepsWith(events, "train/loss");
  ASSERT_GT(steps.size(), resumed);
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<int>(i) + 1);
  double time = 0;
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_GE(events[i]["wall_time"].get<double>(), time);
    time = events[i]["wall_time"];
  }
}

TEST_F(TensorboardTest, AJobThatDoesNotAskHasNone) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("3", "", ""));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(cluster_->WaitFor(*job, Within(120)).ok());
  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_THAT(described->artifact(), Not(Contains(kEvents)));
}

}  // namespace
}  // namespace adjoin
