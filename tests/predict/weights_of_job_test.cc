// Jobs that begin with the weights of an earlier one that was cancelled, still runs, or succeeded: real processes,
// other ranks and other cuts. What they begin with is, tensor by tensor, what `adjoin export` writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "tests/harness/local_cluster.h"
#include "tests/predict/npy_numbers.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSamples = 6;

// The targets of the validation are the opposite of what is trained: the first validation is the best one.
constexpr char kNetwork[] = R"job(
layer { name: "hidden" input: "x" x: "cut" linear { out_features: 5 } }
layer { name: "act" activation { fn: "relu" } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "mse" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" npy { path: "x.npy" } shape: [3] }
  field { name: "y" npy { path: "y.npy" } shape: [2] } }
)job";

std::string Base(const std::string& name) {
  return absl::StrCat("name: \"", name, "\" kind: TRAIN ranks: 2 seed: 1 layout { name: \"cut\" partition: [1, 2] }",
                      kNetwork, R"job(
dataset { name: "opposite"
  field { name: "x" npy { path: "x.npy" } shape: [3] }
  field { name: "y" npy { path: "minus_y.npy" } shape: [2] } }
train { dataset: "train" batch: 2 steps: 100000000 optimizer { adam { lr: 0.01 } }
  validate_on: "opposite" validate_every: 4 }
checkpoint { every_steps: 300 keep_best: "loss" dir: ")job",
                      name, "-ckpt\" }\n");
}

// A step of it changes no weight: a float32 is the same after so little is taken from it.
std::string Tuned(const std::string& name, const std::string& weights) {
  return absl::StrCat("name: \"", name, "\" kind: TRAIN ranks: 3 seed: 2 layout { name: \"cut\" partition: [3, 1] }",
                      kNetwork, "train { dataset: \"train\" batch: 3 steps: 1 optimizer { sgd { lr: 1e-38 } } }\n",
                      "weights { ", weights, " }\n");
}

// It begins with no weights, and writes into the folder of its name.
std::string Fresh(const std::string& name, int seed) {
  return absl::StrCat(
      absl::StrReplaceAll(Tuned(name, "none"), {{"weights { none }\n", ""}, {"seed: 2", absl::StrCat("seed: ", seed)}}),
      "output_dir: \"", name, "\"\n");
}

class WeightsOfJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(1, 6);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    WriteNpy(cluster_->data_root() + "/x.npy", Numbers(kSamples * 3, 0.5f), 3);
    WriteNpy(cluster_->data_root() + "/y.npy", Numbers(kSamples * 2, 0.25f), 2);
    WriteNpy(cluster_->data_root() + "/minus_y.npy", Numbers(kSamples * 2, -0.25f), 2);
  }
  static Deadline Soon() { return Deadline::After(absl::Seconds(120)); }
  LocalCluster::CliResult Cli(const std::vector<std::string>& arguments) { return cluster_->Cli(arguments); }
  // Submits a job whose name is unlike those of the others.
  std::string Submit(const std::string& spec) {
    const absl::StatusOr<std::string> job = cluster_->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : "";
  }
  void Trains(const std::string& job, uint64_t steps) {
    const auto has = [&](const JobSummary& now) {
      return now.progress().step() >= steps && now.progress().checkpoint_step() > 0;
    };
    const absl::StatusOr<JobSummary> reached = cluster_->WaitUntil(job, has, Soon());
    ASSERT_TRUE(reached.ok()) << reached.status();
  }
  void Succeeds(const std::string& job) {
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(job, Soon());
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  }
  std::string Exported(const std::string& job, const std::vector<std::string>& more = {}) {
    const std::string file = absl::StrCat(cluster_->folder(), "/", ++files_, ".safetensors");
    std::vector<std::string> arguments = {"export", job, file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const LocalCluster::CliResult result = Cli(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ReadFile(file);
  }
  std::string Refusal(const std::string& spec) { return std::string(cluster_->Submit(spec).status().message()); }

  std::unique_ptr<LocalCluster> cluster_;
  int files_ = 0;
};

TEST_F(WeightsOfJobTest, FineTuningBeginsWithWhatExportGives) {
  const std::string base = Submit(Base("base"));
  Trains(base, 700);
  // While it runs.
  const std::string early = Submit(Tuned("early", "from_job: \"base\""));
  Succeeds(early);
  EXPECT_THAT(Cli({"events", early}).out, HasSubstr("begins with those of job-1: base-ckpt/step-"));
  ASSERT_EQ(Cli({"cancel", base}).exit_code, 0);
  ASSERT_TRUE(cluster_->WaitUntilIdle(Soon()).ok());

  const std::string best = Exported(base, {"--best"});
  const std::string tuned = Submit(Tuned("tuned", "from_job: \"base\" best: true"));
  Succeeds(tuned);
  EXPECT_EQ(Exported(tuned), best);
  const std::string by_step = Submit(Tuned("by-step", "from_job: \"job-1\" step: 4"));
  Succeeds(by_step);
  EXPECT_EQ(Exported(by_step), best) << "the first validation is the best";
  EXPECT_EQ(Exported(base, {"--step", "4"}), best);

  const std::string newest = Submit(Tuned("newest", "from_job: \"base\""));
  Succeeds(newest);
  const std::string last = Exported(newest);
  EXPECT_NE(last, best);
  // A model that a job has published.
  const std::string third = Submit(Tuned("third", "from_job: \"newest\""));
  Succeeds(third);
  EXPECT_EQ(Exported(third), last);

  EXPECT_EQ(Cli({"predict", "base", "--best", "--dataset", "train", "-f"}).exit_code, 0);
  EXPECT_THAT(Cli({"evaluate", "base", "--step", "4", "--dry-run"}).out,
              AllOf(HasSubstr("from_job: \"job-1\""), HasSubstr("step: 4")));
}

TEST_F(WeightsOfJobTest, AJobThatWaitedBeginsWithNoOtherModelThanTheOneItWasSubmittedFor) {
  Succeeds(Submit(Fresh("first", 2)));
  const std::string base = Submit(Base("base"));
  Trains(base, 700);
  const std::string busy = Submit(Base("busy"));
  Trains(busy, 1);
  // Two of six slots are free.
  constexpr char kRestart[] = "restart { max_restarts: 5 on: \"error\" on: \"rank_lost\" }";
  const std::string model = Submit(Tuned("model", "from_job: \"first\"") + kRestart);
  const std::string file = Submit(Tuned("file", "from_output: \"first/model.safetensors\"") + kRestart);
  const std::string checkpoint = Submit(Tuned("checkpoint", "from_job: \"base\" step: 4") + kRestart);
  for (const std::string& waits : {model, file, checkpoint}) ASSERT_EQ(Cli({"hold", waits}).exit_code, 0);
  for (const std::string& runs : {base, busy}) {
    ASSERT_EQ(Cli({"cancel", runs}).exit_code, 0);
    ASSERT_TRUE(cluster_->WaitFor(runs, Soon()).ok());
  }
  const std::string again = cluster_->folder() + "/again.textproto";
  std::ofstream(again) << Fresh("first", 3);
  const LocalCluster::CliResult replaced = Cli({"submit", "--replace", "-f", again});
  ASSERT_EQ(replaced.exit_code, 0) << replaced.err;
  std::filesystem::remove_all(cluster_->output_root() + "/base-ckpt");
  for (const auto& [job, why] : {std::pair(model,
                                           "first/model.safetensors: not the file that it was when the job"
                                           " was submitted"),
                                 std::pair(file, "not the file that it was when the job was submitted"),
                                 std::pair(checkpoint, "whose weights this job begins with, is not there")}) {
    ASSERT_EQ(Cli({"release", job}).exit_code, 0);
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(job, Soon());
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), FAILED);
    EXPECT_THAT(end->reason(), AllOf(HasSubstr(why), HasSubstr("submit the job again")));
    EXPECT_EQ(end->attempts(), 1u) << "another attempt would find the same";
  }
}

TEST_F(WeightsOfJobTest, WhatIsNotThereIsRefusedWhenTheJobIsSubmitted) {
  const std::string base = Submit(Base("base"));
  Trains(base, 10);
  ASSERT_EQ(Cli({"cancel", base}).exit_code, 0);
  ASSERT_TRUE(cluster_->WaitUntilIdle(Soon()).ok());
  EXPECT_THAT(Refusal(Tuned("a", "from_job: \"base\" step: 5000001")),
              AllOf(HasSubstr("weights.from_job: job-1: no checkpoint is of step 5000001; there are checkpoints of "),
                    HasSubstr("4 (the best by loss)"), HasSubstr("(as worker-0 sees it)")));
  EXPECT_THAT(Refusal(Tuned("a", "from_job: \"bsae\"")), HasSubstr("weights.from_job: there is no job 'bsae'"));
  std::string other = Tuned("a", "from_job: \"base\"");
  other.replace(other.find("out_features: 5"), 15, "out_features: 7");
  EXPECT_THAT(Refusal(other), AllOf(HasSubstr("does not fit the model"),
                                    HasSubstr("hidden.weight: 7x3 in the model, 5x3 in the file")));
}

}  // namespace
}  // namespace adjoin
