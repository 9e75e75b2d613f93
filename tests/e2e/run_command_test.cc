// `adjoin run`: a job with real ranks and no daemons that run already. However the command ends, no process
// remains, and no folder of state unless it was killed by SIGKILL.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/line_job.h"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class RunCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(getenv("TEST_TMPDIR"), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ + "/tmp");
    std::ofstream(folder_ + "/job.textproto") << kLineJob;
  }
  std::unique_ptr<ChildProgram> Start(std::vector<std::string> more, std::vector<std::string> environment = {}) {
    std::vector<std::string> arguments = {Runfile("cli/adjoin"), "run", folder_ + "/job.textproto", "--output-root",
                                          folder_ + "/out"};
    const bool has_data_root = std::find(more.begin(), more.end(), "--data-root") != more.end();
    if (!has_data_root) arguments.insert(arguments.end(), {"--data-root", folder_});
    arguments.insert(arguments.end(), more.begin(), more.end());
    environment.push_back("TMPDIR=" + folder_ + "/tmp");
    auto child = ChildProgram::Start(arguments, environment, absl::StrCat(folder_, "/command-", ++commands_));
    EXPECT_TRUE(child.ok()) << child.status();
    return child.ok() ? *std::move(child) : nullptr;
  }
  // Waits until a rank trains.
  void WaitForStep(const ChildProgram& child) {
    const Deadline deadline = Within(120);
    while (child.Output().find(" running ") == std::string::npos && !deadline.Expired()) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    ASSERT_THAT(child.Output(), HasSubstr(" running ")) << child.Errors();
  }
  void ExpectNothingIsLeft() {
    EXPECT_THAT(ProcessesLeft(folder_, Within(30)), IsEmpty());
    EXPECT_TRUE(fs::is_empty(folder_ + "/tmp"));
  }

  std::string folder_;
  int commands_ = 0;
};

TEST_F(RunCommandTest, RunsAJobToItsEnd) {
  auto child = Start({"--set", "train.steps=4"});
  const auto code = child->Wait(Within(180));
  ASSERT_TRUE(code.ok()) << code.status() << child->Output() << child->Errors();
  EXPECT_EQ(*code, 0) << child->Output() << child->Errors();
  EXPECT_THAT(child->Output(),
              AllOf(HasSubstr("job-1 succeeded"), HasSubstr("results in " + folder_ + "/out/models/line\n")));
  EXPECT_TRUE(fs::exists(folder_ + "/out/models/line/model.safetensors"));
  std::ifstream metrics(folder_ + "/out/models/line/metrics.jsonl");
  int steps = 0;
  for (std::string line; std::getline(metrics, line);) {
    steps += nlohmann::json::parse(line, nullptr, false)["type"] == "step";
  }
  EXPECT_EQ(steps, 4);
  ExpectNothingIsLeft();
}

TEST_F(RunCommandTest, TheNumberOfRanksCanBeGiven) {
  auto child = Start({"-n", "1", "--set", "layout[batch].partition=[1,1]", "-o", "json"});
  const auto code = child->Wait(Within(180));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << child->Output() << child->Errors();
  nlohmann::json last;
  std::ifstream out(absl::StrCat(folder_, "/command-1.out"));
  for (std::string line; std::getline(out, line);) last = nlohmann::json::parse(line, nullptr, false);
  EXPECT_EQ(last["state"], "SUCCEEDED");
  EXPECT_EQ(last["ranks"], 1);
  ExpectNothingIsLeft();
}

// Starts tasks as mpirun does: the first one runs the job on as many ranks, and all end with its code.
TEST_F(RunCommandTest, TasksOfALauncherAreTheRanks) {
  std::ofstream(folder_ + "/launcher") << R"(
for task in 2 1 0; do
  OMPI_COMM_WORLD_RANK=$task OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3 "$@" > task-$task.out 2>&1 &
  pids="$pids $!"
done
for pid in $pids; do wait $pid; echo $?; done
)";
  const auto launch = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"/bin/bash",
                                          "-c",
                                          "cd " + folder_ + "; . ./launcher",
                                          "launcher",
                                          fs::absolute(Runfile("cli/adjoin")),
                                          "run",
                                          "job.textproto",
                                          "--data-root",
                                          folder_,
                                          "--output-root",
                                          folder_ + "/out",
                                          "--replace"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto child =
        ChildProgram::Start(arguments, {"TMPDIR=" + folder_ + "/tmp"}, absl::StrCat(folder_, "/launch-", ++commands_));
    EXPECT_TRUE(child.ok()) << child.status();
    const auto code = (*child)->Wait(Within(180));
    EXPECT_TRUE(code.ok() && *code == 0) << (*child)->Errors();
    ExpectNothingIsLeft();
    return (*child)->Output();
  };
  EXPECT_EQ(launch({"-o", "json"}), "0\n0\n0\n") << ReadFile(folder_ + "/task-0.out");
  EXPECT_THAT(ReadFile(folder_ + "/task-0.out"), HasSubstr("\"ranks\":3"));
  EXPECT_EQ(ReadFile(folder_ + "/task-1.out") + ReadFile(folder_ + "/task-2.out"), "");
  EXPECT_EQ(launch({"--set", "train.optimizer.sgd.lr=1e30", "--set", "train.steps=50"}), "100\n100\n100\n");
  EXPECT_EQ(launch({"-n", "2"}), "1\n1\n1\n");
  EXPECT_THAT(ReadFile(folder_ + "/task-0.out"),
              AllOf(HasSubstr("-n 2, but 3 tasks were started"), HasSubstr("or unset OMPI_COMM_WORLD_RANK")));
}

TEST_F(RunCommandTest, ResultsOfEarlierRunsStay) {
  const auto run = [&](std::vector<std::string> more, int expected) {
    auto child = Start(std::move(more));
    const auto code = child->Wait(Within(180));
    EXPECT_TRUE(code.ok() && *code == expected) << child->Output() << child->Errors();
    return child->Output() + child->Errors();
  };
  run({}, 0);
  EXPECT_THAT(run({}, 1), HasSubstr("/out/models/line has the results of an earlier job: --replace replaces them"));
  run({"--replace"}, 0);
  EXPECT_THAT(run({"--unset", "output_dir"}, 0), HasSubstr("results in " + folder_ + "/out/run-1\n"));
  EXPECT_THAT(run({"--unset", "output_dir"}, 0), HasSubstr("results in " + folder_ + "/out/run-2\n"));
  EXPECT_TRUE(fs::exists(folder_ + "/out/run-1/model.safetensors"));
  ExpectNothingIsLeft();
}

TEST_F(RunCommandTest, AnInterruptCancelsTheJob) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    auto child = Start({"--set", "train.steps=1000000000"});
    WaitForStep(*child);
    child->Signal(signal);
    const auto code = child->Wait(Within(90));
    ASSERT_TRUE(code.ok()) << code.status() << child->Output();
    EXPECT_EQ(*code, 103) << child->Output() << child->Errors();
    EXPECT_THAT(child->Errors(), HasSubstr("cancels job-1"));
    EXPECT_THAT(child->Output(), HasSubstr("job-1 cancelled"));
    ExpectNothingIsLeft();
  }
}

// The ranks stand still, so that the job cannot be cancelled.
TEST_F(RunCommandTest, ASecondInterruptEndsAJobThatDoesNotEnd) {
  auto child = Start({"--set", "train.steps=1000000000"});
  WaitForStep(*child);
  for (const auto& [pid, command] : ProcessesIn(folder_)) {
    if (command.find("adjoin-rank") != std::string::npos) kill(pid, SIGSTOP);
  }
  child->Signal(SIGINT);
  const Deadline told = Within(60);
  while (child->Errors().find("interrupt again to end it by force") == std::string::npos && !told.Expired()) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  child->Signal(SIGINT);
  const auto code = child->Wait(Within(60));
  ASSERT_TRUE(code.ok()) << code.status() << child->Output() << child->Errors();
  EXPECT_EQ(*code, 103) << child->Output() << child->Errors();
  ExpectNothingIsLeft();
}

TEST_F(RunCommandTest, ACommandThatIsKilledLeavesNoProcess) {
  auto child = Start({"--set", "train.steps=1000000000"});
  WaitForStep(*child);
  EXPECT_GE(ProcessesIn(folder_).size(), 4) << "the command, two daemons, two ranks";
  child->Signal(SIGKILL);
  ASSERT_TRUE(child->Wait(Within(30)).ok());
  EXPECT_THAT(ProcessesLeft(folder_, Within(30)), IsEmpty());
}

TEST_F(RunCommandTest, AJobThatFailsShowsWhatItsRanksWrote) {
  auto child = Start({"--set", "train.optimizer.sgd.lr=1e30", "--set", "train.steps=50"});
  const auto code = child->Wait(Within(180));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 100) << child->Output();
  EXPECT_THAT(child->Output(), HasSubstr("job-1 failed"));
  EXPECT_THAT(child->Errors(), HasSubstr("rank 0: "));
  ExpectNothingIsLeft();
}

TEST_F(RunCommandTest, MistakesAreToldBeforeAnythingRuns) {
  const auto refusal = [&](std::vector<std::string> more, std::vector<std::string> environment = {}) {
    auto child = Start(std::move(more), std::move(environment));
    const auto code = child->Wait(Within(120));
    EXPECT_TRUE(code.ok() && *code == 1) << child->Output();
    ExpectNothingIsLeft();
    return child->Errors();
  };
  EXPECT_THAT(refusal({}, {"PMI_RANK=3"}), HasSubstr("PMI_RANK is 3, but PMI_SIZE is not set"));
  EXPECT_THAT(refusal({}, {"SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NUM_NODES=2"}),
              HasSubstr("the 4 tasks are on several machines"));
  EXPECT_THAT(refusal({"--set", "train.bach=1"}), HasSubstr("there is no field 'bach'"));
  EXPECT_THAT(refusal({"--data-root", folder_ + "/none"}), HasSubstr("/none: no such folder"));
  EXPECT_THAT(refusal({"-n", "1"}), HasSubstr("job.textproto with --set:")) << "the coordinator's answer";
  EXPECT_THAT(refusal({"--set", "resources.max_ranks_per_node=1"}), HasSubstr("one node for all 2 ranks"));
  EXPECT_THAT(refusal({"--set", "resources.node_label[zone]=a"}), HasSubstr("has no labels"));
}

// The output root is a disk on which no space is left, a tmpfs of fewer bytes than a job's smallest files take.
class RunOnFullDiskTest : public RunCommandTest {
 protected:
  void SetUp() override {
    RunCommandTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can mount a tmpfs";
    disk_ = folder_ + "/out";
    fs::create_directories(disk_);
    if (mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=32k") != 0) {
      GTEST_SKIP() << "a tmpfs cannot be mounted here: " << strerror(errno);
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) umount2(disk_.c_str(), MNT_DETACH);
  }

  std::string disk_;
  bool mounted_ = false;
};

TEST_F(RunOnFullDiskTest, TheCommandEndsWithTheReason) {
  auto child = Start({});
  const auto code = child->Wait(Within(180));
  ASSERT_TRUE(code.ok()) << code.status() << child->Output() << child->Errors();
  EXPECT_EQ(*code, 1) << child->Output();
  const std::string reason = "this machine can run no ranks: no space is left for the output root ";
  EXPECT_THAT(child->Errors(),
              AllOf(HasSubstr("waits for at most 30s: " + reason), HasSubstr("adjoin: error: " + reason)));
  ExpectNothingIsLeft();
}

TEST_F(RunOnFullDiskTest, TheJobRunsWhenThereIsSpaceAgain) {
  auto child = Start({});
  const Deadline told = Within(120);
  while (child->Errors().find("no space is left") == std::string::npos && !told.Expired()) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_FALSE(told.Expired()) << child->Errors();
  ASSERT_EQ(mount("tmpfs", disk_.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0) << strerror(errno);
  const auto code = child->Wait(Within(180));
  ASSERT_TRUE(code.ok()) << code.status() << child->Output() << child->Errors();
  EXPECT_EQ(*code, 0) << child->Output() << child->Errors();
  EXPECT_TRUE(fs::exists(disk_ + "/models/line/model.safetensors"));
  ExpectNothingIsLeft();
}

TEST_F(RunCommandTest, WithoutAnOutputDirAMistakeIsAtTheLineOfTheFile) {
  const std::string line = kLineJob;
  const std::string job = line.substr(0, line.find("output_dir"));
  const auto refusal = [&](const std::string& text, const std::string& file, std::vector<std::string> more = {}) {
    std::ofstream(folder_ + "/job.textproto") << text << "# no line end";
    const auto child = Start(std::move(more));
    const auto code = child->Wait(Within(120));
    EXPECT_TRUE(code.ok() && *code == 1) << child->Output();
    return absl::StrContains(child->Errors(), absl::StrCat(folder_, "/job.textproto", file)) ? "" : child->Errors();
  };
  EXPECT_EQ(refusal(absl::StrReplaceAll(job, {{"target: \"y\"", "target: \"z\""}}), ":4:"), "");
  EXPECT_EQ(refusal(absl::StrReplaceAll(job, {{"target: \"y\"", "target: \"z\""}}), ":4:", {"--auto"}), "");
  EXPECT_EQ(refusal(absl::StrReplaceAll(job, {{"x: \"batch\" linear", "x: \"bach\" linear"}}), ":3:"), "");
  EXPECT_FALSE(fs::exists(folder_ + "/out/run-1"));
}

}  // namespace
}  // namespace adjoin
