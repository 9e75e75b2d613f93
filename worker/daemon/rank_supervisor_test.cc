#include "worker/daemon/rank_supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace adjoin {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class RankSupervisorTest : public ::testing::Test {
 protected:
  RankSupervisorTest()
      : supervisor_(std::make_unique<RankSupervisor>(
            RankSupervisor::Callbacks{nullptr,
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
    SpawnRequest request;
    request.binary = "/bin/sh";
    request.arguments = {"-c", script};
    request.environment = RankEnvironment();
    Start(rank, request);
  }
  void Start(uint32_t rank, const SpawnRequest& request) { supervisor_->Start({"job-1", 1, rank}, request); }
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
  // Returns true once the process is gone; a killed one may take a moment.
  static bool Gone(pid_t pid) {
    for (int i = 0; i < 2000; ++i) {
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

TEST_F(RankSupervisorTest, IgnoresSigtermOnlyWhereThatIsAskedFor) {
  SpawnRequest request;
  request.binary = "/bin/sh";
  request.arguments = {"-c", "kill -TERM $$; exit 3"};
  request.environment = RankEnvironment();
  Start(0, request);
  request.ignores_sigterm = true;
  Start(1, request);
  EXPECT_EQ(ExitOf(0), "was killed by signal 15 (SIGTERM)");
  EXPECT_EQ(ExitOf(1), "exited with code 3");
}

TEST_F(RankSupervisorTest, ReportsAProgramThatCannotBeStarted) {
  SpawnRequest request;
  request.binary = "/nowhere/adjoin-rank";
  Start(0, request);
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

TEST_F(RankSupervisorTest, LimitsMemoryAndPrivilegesOfAProcess) {
  SpawnRequest request;
  request.binary = "/bin/sh";
  request.arguments = {"-c", "ulimit -d; pwd; cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status"};
  request.folder = "/usr";
  request.memory_bytes = uint64_t{300} << 20;
  request.oom_score_above = 2000;
  Start(0, request);
  EXPECT_EQ(ExitOf(0), "exited with code 0");
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(lines_, ::testing::ElementsAre("307200", "/usr", "1000", "NoNewPrivs:\t1"));
}

TEST_F(RankSupervisorTest, RunsAsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can";
  absl::StatusOr<User> user = FindUser("nobody");
  ASSERT_TRUE(user.ok()) << user.status();
  SpawnRequest request;
  request.binary = "/bin/sh";
  request.arguments = {
      "-c", "id -un; id -G; echo $HOME; grep '^Cap[PE]' /proc/self/status; echo x > /proc/self/oom_score_adj"};
  request.environment = RankEnvironment(user->home);
  request.user = *user;
  Start(0, request);
  ExitOf(0);
  absl::MutexLock lock(&mutex_);
  ASSERT_GE(lines_.size(), 5);
  EXPECT_EQ(lines_[0], "nobody");
  EXPECT_EQ(lines_[1], absl::StrCat(user->gid));
  EXPECT_EQ(lines_[2], user->home);
  EXPECT_THAT(lines_[3], HasSubstr("0000000000000000"));
  EXPECT_THAT(lines_[4], HasSubstr("0000000000000000"));
  EXPECT_TRUE(absl::IsNotFound(FindUser("nobody-at-all").status()));
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

TEST_F(RankSupervisorTest, KillsTheChildrenThatAProcessLeavesBehind) {
  Start(0, "sleep 60 & echo $!");
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(WaitForLine(), &child));
  EXPECT_EQ(ExitOf(0), "exited with code 0");
  EXPECT_TRUE(Gone(child));
}

TEST_F(RankSupervisorTest, TheDestructorKillsProcessesThatAreLeft) {
  Start(0, "echo $$; sleep 60");
  pid_t child = 0;
  ASSERT_TRUE(absl::SimpleAtoi(WaitForLine(), &child));
  supervisor_.reset();
  EXPECT_EQ(ExitOf(0), "was killed by signal 9 (SIGKILL)");
  EXPECT_TRUE(Gone(child));
}

}  // namespace
}  // namespace adjoin
