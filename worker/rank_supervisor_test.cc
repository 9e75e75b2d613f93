#include "worker/rank_supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <map>

#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class RankSupervisorTest : public ::testing::Test {
 protected:
  RankSupervisorTest()
      : supervisor_(std::make_unique<RankSupervisor>(RankSupervisor::Callbacks{
            [this](const RankKey& key, std::vector<std::string> lines) {
              absl::MutexLock lock(&mutex_);
              for (std::string& line : lines) lines_.push_back(std::move(line));
            },
            [this](const RankKey& key, const RankExit& exit) {
              absl::MutexLock lock(&mutex_);
              exits_[key.rank] = exit.ToString();
            }})) {}

  void Start(uint32_t rank, const std::string& script) {
    setenv("ADJOIN_TEST_SECRET", "secret", 1);
    supervisor_->Start({"job-1", 1, rank}, {"/bin/sh", {"-c", script}, RankEnvironment()});
  }
  std::string ExitOf(uint32_t rank) {
    absl::MutexLock lock(&mutex_);
    auto there = [&] { return exits_.count(rank) > 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20)) ? exits_[rank] : "no exit";
  }
  std::string WaitForLine() {
    absl::MutexLock lock(&mutex_);
    auto there = [&] { return !lines_.empty(); };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20)) ? lines_[0] : "";
  }
  // Whether it is gone; a killed process may take a moment.
  static bool Gone(pid_t pid) {
    for (int i = 0; i < 200; ++i) {
      if (kill(pid, 0) != 0) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  absl::Mutex mutex_;
  std::vector<std::string> lines_;
  std::map<uint32_t, std::string> exits_;
  std::unique_ptr<RankSupervisor> supervisor_;
};

TEST_F(RankSupervisorTest, ReportsHowAProcessEnded) {
  Start(0, "exit 3");
  Start(1, "kill -9 $$");
  EXPECT_EQ(ExitOf(0), "exited with code 3");
  EXPECT_EQ(ExitOf(1), "was killed by signal 9 (SIGKILL)");
}

TEST_F(RankSupervisorTest, ReportsWhatCannotBeStarted) {
  supervisor_->Start({"job-1", 1, 0}, {"/nowhere/adjoin-rank", {}, {}});
  EXPECT_THAT(ExitOf(0), HasSubstr("could not be started: /nowhere/adjoin-rank cannot be run: No such file"));
}

TEST_F(RankSupervisorTest, PassesOnLinesBeforeTheEnd) {
  Start(0, "echo out; echo err >&2; printf unfinished; read nothing || echo; ulimit -c; env");
  EXPECT_EQ(ExitOf(0), "exited with code 0");
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(lines_, Contains("out"));
  EXPECT_THAT(lines_, Contains("err"));
  EXPECT_THAT(lines_, Contains("unfinished"));
  EXPECT_THAT(lines_, Contains("0")) << "the size of a core dump";
  EXPECT_THAT(lines_, Contains("OMP_NUM_THREADS=1"));
  EXPECT_THAT(lines_, ::testing::Not(Contains(HasSubstr("secret"))));
}

TEST_F(RankSupervisorTest, KillsAfterTheGrace) {
  Start(0, "trap '' TERM; echo $$; sleep 60");
  Start(1, "exit 0");
  EXPECT_EQ(ExitOf(1), "exited with code 0");
  WaitForLine();
  supervisor_->Kill("job-1", 2, absl::ZeroDuration());  // another epoch
  supervisor_->Kill("job-1", 1, absl::Milliseconds(50));
  EXPECT_EQ(ExitOf(0), "was killed by signal 9 (SIGKILL)");
}

TEST_F(RankSupervisorTest, WhatAProcessLeavesBehindGoesWithIt) {
  Start(0, "sleep 60 & echo $!");
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(WaitForLine(), &child));
  EXPECT_EQ(ExitOf(0), "exited with code 0");
  EXPECT_TRUE(Gone(child));
}

TEST_F(RankSupervisorTest, TheEndKillsWhatIsLeft) {
  Start(0, "echo $$; sleep 60");
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(WaitForLine(), &child));
  supervisor_.reset();
  EXPECT_EQ(ExitOf(0), "was killed by signal 9 (SIGKILL)");
  EXPECT_TRUE(Gone(child));
}

}  // namespace
}  // namespace adjoin
