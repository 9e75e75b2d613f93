// `adjoin run` under the launchers themselves, Open MPI's and MPICH's mpirun, on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "tests/e2e/line_job.h"
#include "tests/e2e/mpirun.h"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class LaunchersTest : public ::testing::TestWithParam<Mpirun> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(GetParam().command[0])) << "tools/setup installs it";
    std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = absl::StrCat(getenv("TEST_TMPDIR"), "/", test.replace(test.find('/'), 1, "-"));
    fs::create_directories(folder_);
    std::ofstream(folder_ + "/job.textproto") << kLineJob;
  }
  std::unique_ptr<ChildProgram> Start(int tasks, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = GetParam().command;
    arguments.insert(arguments.end(),
                     {"-n", absl::StrCat(tasks), fs::absolute(Runfile("cli/adjoin")), "run", folder_ + "/job.textproto",
                      "--data-root", folder_, "--output-root", folder_ + "/out", "--replace"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto child =
        ChildProgram::Start(arguments, MpirunEnvironment(folder_), absl::StrCat(folder_, "/launch-", ++launches_));
    EXPECT_TRUE(child.ok()) << child.status();
    return child.ok() ? *std::move(child) : nullptr;
  }
  // Returns what all tasks wrote.
  std::string Run(int tasks, const std::vector<std::string>& more, int expected) {
    auto child = Start(tasks, more);
    if (child == nullptr) return "";
    const auto code = child->Wait(Within(180));
    EXPECT_TRUE(code.ok()) << code.status() << child->Output() << child->Errors();
    EXPECT_EQ(code.value_or(-1), expected) << child->Output() << child->Errors();
    ExpectNothingIsLeft();
    return child->Output() + child->Errors();
  }
  void ExpectNothingIsLeft() {
    EXPECT_THAT(ProcessesLeft(folder_, Within(30)), IsEmpty());
    EXPECT_TRUE(fs::is_empty(folder_ + "/tmp"));
  }

  std::string folder_;
  int launches_ = 0;
};

TEST_P(LaunchersTest, EachTaskStandsForARank) {
  EXPECT_THAT(Run(2, {"-o", "json"}, 0), AllOf(HasSubstr("\"state\":\"SUCCEEDED\""), HasSubstr("\"ranks\":2")));
  EXPECT_TRUE(fs::exists(folder_ + "/out/models/line/model.safetensors"));
  const std::string three = Run(3, {"--set", "layout[batch].partition=[3,1]"}, 0);
  EXPECT_THAT(three, HasSubstr("job-1 succeeded"));
  EXPECT_EQ(three.find("job-1 succeeded"), three.rfind("job-1 succeeded")) << "one task speaks";
  EXPECT_EQ(three.find('\x1b'), three.npos) << "though a task of Open MPI has a terminal";
}

TEST_P(LaunchersTest, AllTasksEndWithTheCodeOfTheJob) {
  EXPECT_THAT(Run(2, {"--set", "train.optimizer.sgd.lr=1e30", "--set", "train.steps=50"}, 100),
              HasSubstr("job-1 failed"));
  EXPECT_THAT(Run(3, {"-n", "2"}, 1), HasSubstr("-n 2, but 3 tasks were started"));
}

TEST_P(LaunchersTest, AnInterruptOfTheLauncherLeavesNoProcess) {
  auto child = Start(2, {"--set", "train.steps=1000000000"});
  ASSERT_NE(child, nullptr);
  const Deadline running = Within(120);
  while (child->Output().find(" running ") == std::string::npos && !running.Expired()) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_THAT(child->Output(), HasSubstr(" running ")) << child->Errors();
  child->Signal(SIGINT);
  const auto code = child->Wait(Within(90));
  ASSERT_TRUE(code.ok()) << code.status() << child->Output() << child->Errors();
  EXPECT_NE(*code, 0);
  EXPECT_THAT(ProcessesLeft(folder_, Within(30)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, LaunchersTest, ::testing::ValuesIn(kMpiruns),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace adjoin
