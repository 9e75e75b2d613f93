// What users have of jobs that run, failed or were cancelled: their metrics and the models in their checkpoints; and
// that the results of one job are not replaced by another one without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// LeNet-5 on 2 ranks, with a validation and a checkpoint every few steps.
std::string Job(const std::string& name, int steps, const std::string& more = "") {
  return absl::StrReplaceAll(
      ReadFile(Runfile("examples/mnist/lenet5-sync-sgd.textproto")),
      {{"output_dir: \"lenet5-sync-sgd\"",
        absl::StrCat("output_dir: \"", name, "\" checkpoint { dir: \"", name, "-ckpt\" every_steps: 5 keep_last: 2",
                     " keep_best: \"loss\" } restart { max_restarts: 3 } ", more)},
       {"ranks: 4", "ranks: 2"},
       {"[4, 1", "[2, 1"},
       {"epochs: 8", absl::StrCat("steps: ", steps, " validate_on: \"test\" validate_every: 10")},
       {"name: \"test\"", "name: \"test\" limit: 64"}});
}

// The steps of the lines of type "step", in order.
std::vector<int> StepsOf(const std::string& lines) {
  std::vector<int> steps;
  for (absl::string_view text : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const auto line = nlohmann::json::parse(std::string(text), nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(line.is_object()) << "no whole line: " << text;
    if (line.is_object() && line["type"] == "step") steps.push_back(line["step"]);
  }
  return steps;
}

void ExpectEachOnceFromOne(const std::vector<int>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<int>(i) + 1);
}

class ResultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = LocalCluster::Start(1, 2);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  std::string SpecFile(const std::string& spec) {
    const std::string file = cluster_->folder() + "/job.textproto";
    std::ofstream(file) << spec;
    return file;
  }
  std::string Run(const std::vector<std::string>& arguments) {
    const LocalCluster::CliResult result = cluster_->Cli(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments[0] << ": " << result.err;
    return result.out;
  }
  std::string Refusal(const std::vector<std::string>& arguments) {
    const LocalCluster::CliResult result = cluster_->Cli(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments[0] << ": " << result.out;
    return result.err;
  }
  void AwaitEnd(const std::string& job, JobState state) {
    const auto end = cluster_->WaitFor(job, Within(240));
    ASSERT_TRUE(end.ok()) << end.status();
    ASSERT_EQ(end->state(), state) << end->reason();
  }
  // Waits until the newest attempt has written a checkpoint of this step or a later one.
  absl::StatusOr<JobSummary> AwaitCheckpoint(const std::string& job, uint64_t step) {
    return cluster_->WaitUntil(
        job, [&](const JobSummary& s) { return s.state() == RUNNING && s.progress().checkpoint_step() >= step; },
        Within(240));
  }
  std::string File(const std::string& name) const { return absl::StrCat(cluster_->folder(), "/", name); }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(ResultsTest, ASecondJobReplacesTheFirstOnesModelOnlyWhereThatIsTold) {
  const std::string file = SpecFile(Job("net", 5));
  const std::string first = std::string(absl::StripSuffix(Run({"submit", file}), "\n"));
  // It runs, or has ended by now.
  EXPECT_THAT(Refusal({"submit", file}), AllOf(HasSubstr("job.textproto:"), HasSubstr("output_dir"), HasSubstr(first)));
  AwaitEnd(first, SUCCEEDED);
  Run({"export", first, File("first.safetensors")});
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Refusal({"submit", file, "--set", "seed=2"}),
                AllOf(HasSubstr(absl::StrCat("has what ", first, " wrote")), HasSubstr("--replace")));
    if (round == 0) {
      ASSERT_EQ(cluster_->RestartCoordinator(), absl::OkStatus());
    }
  }
  Run({"export", first, File("again.safetensors")});
  EXPECT_EQ(ReadFile(File("again.safetensors")), ReadFile(File("first.safetensors")));
  const std::string second =
      std::string(absl::StripSuffix(Run({"submit", file, "--set", "seed=2", "--replace"}), "\n"));
  AwaitEnd(second, SUCCEEDED);
  EXPECT_THAT(Run({"describe", first}), ContainsRegex(absl::StrCat("replaced +its results, by ", second)));
  EXPECT_THAT(Refusal({"get", first, "model.safetensors", "-O", File("gone")}),
              HasSubstr(absl::StrCat(second, " has replaced them")));
  // A job without a folder has its own.
  const std::string third = std::string(absl::StripSuffix(
      Run({"submit", file, "--set", "output_dir=", "--set", "checkpoint={dir: \"third-ckpt\"}"}), "\n"));
  AwaitEnd(third, SUCCEEDED);
  EXPECT_FALSE(ReadFile(absl::StrCat(cluster_->output_root(), "/", third, "/model.safetensors")).empty());
}

TEST_F(ResultsTest, MetricsGoOnOverAKilledRankAndStayOfACancelledJob) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("long", 1000000));
  ASSERT_TRUE(job.ok()) << job.status();
  auto follow = ChildProgram::Start(
      {Runfile("cli/adjoin"), "--coordinator", cluster_->address(), "metrics", *job, "-f"}, {}, File("follow"));
  ASSERT_TRUE(follow.ok()) << follow.status();
  absl::StatusOr<JobSummary> running = AwaitCheckpoint(*job, 10);
  ASSERT_TRUE(running.ok()) << running.status();
  const std::vector<int> early = StepsOf(Run({"metrics", *job}));
  EXPECT_GE(early.size(), 10);
  ExpectEachOnceFromOne(early);
  EXPECT_THAT(Run({"metrics", *job, "-o", "csv"}), StartsWith("step,epoch,loss,"));
  EXPECT_THAT(Run({"metrics", *job, "--type", "validation", "-o", "csv"}), HasSubstr("\n10,1,"));
  EXPECT_THAT(Run({"get", *job, "metrics.jsonl", "-O", "-"}), HasSubstr("\"step\": 10,"));

  const auto shown = [&](const JobSummary&) { return !(*follow)->Output().empty(); };
  ASSERT_TRUE(cluster_->WaitUntil(*job, shown, Within(60)).ok()) << "nothing of the first attempt was shown";
  const uint64_t epoch = running->epoch();
  ASSERT_EQ(cluster_->KillRank(*job, 1, SIGKILL), absl::OkStatus());
  running = cluster_->WaitUntil(
      *job,
      [&](const JobSummary& s) {
        return s.epoch() > epoch && s.state() == RUNNING &&
               s.progress().checkpoint_step() >= s.progress().resumed_step() + 20;
      },
      Within(240));
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_GT(running->progress().resumed_step(), 0);
  Run({"cancel", *job});
  const auto code = (*follow)->Wait(Within(60));
  ASSERT_TRUE(code.ok()) << code.status() << (*follow)->Errors();
  EXPECT_EQ(*code, 0) << (*follow)->Errors();
  const std::vector<int> followed = StepsOf((*follow)->Output());
  EXPECT_GE(followed.size(), running->progress().checkpoint_step());
  ExpectEachOnceFromOne(followed);
  EXPECT_THAT((*follow)->Errors(), HasSubstr(absl::StrCat("attempt ", running->epoch(), " begins here")));
  EXPECT_EQ(StepsOf(Run({"metrics", *job})), followed) << "also when it is over";
}

TEST_F(ResultsTest, ModelsOfCheckpointsAreExportedAlsoOfJobsThatDidNotSucceed) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("endless", 1000000));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(AwaitCheckpoint(*job, 40).ok());
  EXPECT_THAT(Refusal({"export", *job, File("none.safetensors")}),
              AllOf(HasSubstr("the job has published no model; there are checkpoints of the steps "),
                    HasSubstr("(the best by loss)"), HasSubstr("--step N or --best takes one")));
  // A better one may take its place while it is read: that is said, and no file is left.
  const Deadline deadline = Within(60);
  LocalCluster::CliResult best;
  do {
    best = cluster_->Cli({"export", *job, File("best-of-running.safetensors"), "--best"});
    if (best.exit_code != 0) {
      EXPECT_THAT(best.err, HasSubstr("was removed while it was read"));
    }
  } while (best.exit_code != 0 && !deadline.Expired());
  EXPECT_THAT(best.out, HasSubstr("10 tensors, 246824 bytes"));
  Run({"cancel", *job});
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());
  EXPECT_THAT(Run({"export", *job, File("best.safetensors"), "--best"}), HasSubstr("10 tensors, 246824 bytes"));
  EXPECT_THAT(Refusal({"export", *job, File("none.safetensors"), "--step", "1"}),
              HasSubstr("no checkpoint is of step 1;"));
  EXPECT_EQ(cluster_->Cli({"export", *job, File("x"), "--step", "0"}).exit_code, 2);
  EXPECT_EQ(cluster_->Cli({"export", *job, File("x"), "--step", "5", "--best"}).exit_code, 2);

  // The last checkpoint of a job that succeeded has the very file that it published.
  const absl::StatusOr<std::string> whole = cluster_->Submit(Job("whole", 25));
  ASSERT_TRUE(whole.ok()) << whole.status();
  AwaitEnd(*whole, SUCCEEDED);
  Run({"export", *whole, File("published.safetensors")});
  Run({"export", *whole, File("step-25.safetensors"), "--step", "25"});
  Run({"export", *whole, File("best-of-whole.safetensors"), "--best"});
  EXPECT_EQ(ReadFile(File("step-25.safetensors")), ReadFile(File("published.safetensors")));
  EXPECT_NE(ReadFile(File("best.safetensors")), ReadFile(File("published.safetensors")));
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
