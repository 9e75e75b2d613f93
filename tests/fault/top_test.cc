// `adjoin top` and the colours of states, on a terminal (a pty of Python's) and in pipes, against a real coordinator
// whose ranks are fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fault/control_plane_fixture.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using TopTest = ControlPlaneTest;

TEST_F(TopTest, OnATerminalItIsLiveAndGivesTheTerminalBackHoweverItEnds) {
  StartCluster(/*nodes=*/1, /*slots=*/2);
  const std::string job = Submit("steps-100000x10ms", 2);
  WaitForState(job, RUNNING);
  const std::string waits = Submit("hang", 2);
  const auto check = ChildProgram::Start(
      {"/usr/bin/python3", Runfile("tests/fault/top_on_terminal.py"), Runfile("cli/adjoin"), job, waits},
      {"ADJOIN_COORDINATOR=" + cluster_->address(), "TERM=xterm", "NO_COLOR="}, cluster_->folder() + "/top");
  ASSERT_TRUE(check.ok()) << check.status();
  const auto code = (*check)->Wait(Within(200));
  ASSERT_TRUE(code.ok()) << code.status() << (*check)->Output() << (*check)->Errors();
  EXPECT_EQ(*code, 0) << (*check)->Output() << (*check)->Errors();
}

TEST_F(TopTest, InAPipeItIsOnePageWithoutEscapesUnlessColourIsAskedFor) {
  StartCluster(/*nodes=*/1, /*slots=*/2);
  const std::string job = Submit("steps-100000x10ms", 2);
  WaitForState(job, RUNNING);
  const LocalCluster::CliResult page = cluster_->Cli({"top"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, StartsWith("adjoin top " + cluster_->address() + ": 1 running; 1 worker, 0 of 2 slots free"));
  EXPECT_THAT(page.out, ContainsRegex("\n" + job + " +steps-100000x10ms +running "));
  EXPECT_THAT(page.out, ContainsRegex("\nworker-0 .* ready "));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"top"}, {"ps"}, {"describe", job}, {"ps", "--color", "never"}}) {
    EXPECT_THAT(cluster_->Cli(command).out, Not(HasSubstr("\x1b"))) << command[0];
  }
  for (const std::vector<std::string>& command : {std::vector<std::string>{"--color", "always", "top"},
                                                  {"ps", "--color", "always"},
                                                  {"describe", job, "--color", "always"}}) {
    EXPECT_THAT(cluster_->Cli(command).out, HasSubstr("\x1b[32mrunning\x1b[0m")) << command[0];
  }
  EXPECT_THAT(cluster_->Cli({"ps", "-o", "json", "--color", "always"}).out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(cluster_->Cli({"ps", "--color", "green"}).exit_code, 2);
  const std::string ends = Submit("fail-rank-1", 2);
  cluster_->Cli({"cancel", job});
  const LocalCluster::CliResult followed = cluster_->Cli({"--color", "always", "follow", ends});
  EXPECT_EQ(followed.exit_code, 100);
  EXPECT_THAT(followed.out, HasSubstr("\x1b[31mfailed\x1b[0m"));
}

TEST_F(TopTest, WithoutACoordinatorItFailsAsOtherCommandsDo) {
  StartCluster(/*nodes=*/1, /*slots=*/1);
  const LocalCluster::CliResult none = cluster_->Cli({"--coordinator", "127.0.0.1:1", "--retry-seconds", "0", "top"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("cannot reach the coordinator"));
}

}  // namespace
}  // namespace adjoin
