#include "worker/daemon/process_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "worker/daemon/proc_stat.h"

namespace adjoin {
namespace {

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A process that sleeps, in a group of its own.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      setpgid(0, 0);
      execl("/bin/sleep", "sleep", "60", nullptr);
      _exit(127);
    }
    setpgid(pid_, pid_);
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  bool Runs() const {
    std::optional<ProcStat> stat = ReadProcStat(pid_);
    return stat.has_value() && !stat->Dead();
  }

 private:
  const pid_t pid_;
};

class ProcessRecordTest : public ::testing::Test {
 protected:
  const std::string path_ = absl::StrCat(::testing::TempDir(), "/ranks-", getpid());
  void TearDown() override { unlink(path_.c_str()); }
};

TEST_F(ProcessRecordTest, TheNextDaemonKillsProcessesThatAreLeft) {
  Sleeper left, reaped;
  ProcessRecord record(path_);
  ASSERT_EQ(record.KillLeftovers(Soon()), absl::OkStatus());
  ASSERT_EQ(record.Add(left.pid()), absl::OkStatus());
  ASSERT_EQ(record.Add(reaped.pid()), absl::OkStatus());
  record.Remove(reaped.pid());
  kill(left.pid(), SIGSTOP);
  ProcessRecord next(path_);
  ASSERT_EQ(next.KillLeftovers(Soon()), absl::OkStatus());
  EXPECT_FALSE(left.Runs());
  EXPECT_TRUE(reaped.Runs());
  EXPECT_EQ(ProcessRecord(path_).KillLeftovers(Soon()), absl::OkStatus());
}

TEST_F(ProcessRecordTest, AnotherProcessWithTheSamePidLives) {
  Sleeper other;
  std::optional<ProcStat> stat = ReadProcStat(other.pid());
  ASSERT_TRUE(stat.has_value());
  ProcessRecord record(path_);
  ASSERT_EQ(record.Add(other.pid()), absl::OkStatus());
  const std::string text = Read(path_);
  std::ofstream(path_) << absl::StrReplaceAll(
      text, {{absl::StrCat(" ", stat->start_time), absl::StrCat(" ", stat->start_time - 1)}});
  ASSERT_EQ(ProcessRecord(path_).KillLeftovers(Soon()), absl::OkStatus());
  EXPECT_TRUE(other.Runs()) << "an earlier process had that number";
  std::ofstream(path_) << "another-boot" << text.substr(text.find('\n'));
  ASSERT_EQ(ProcessRecord(path_).KillLeftovers(Soon()), absl::OkStatus());
  EXPECT_TRUE(other.Runs()) << "that was before the machine started";
}

TEST_F(ProcessRecordTest, ErrorsNameTheFileAndTheReason) {
  ProcessRecord record(path_);
  EXPECT_TRUE(absl::IsNotFound(record.Add(2147483000)));
  ASSERT_EQ(record.KillLeftovers(Soon()), absl::OkStatus());
  std::ofstream(path_, std::ios::app) << "-1 7\n";
  EXPECT_TRUE(absl::IsDataLoss(record.KillLeftovers(Soon())));
  EXPECT_TRUE(absl::IsUnavailable(ProcessRecord("/nowhere/ranks").KillLeftovers(Soon())));
}

TEST(ProcStatTest, SeesAStoppedProcess) {
  Sleeper sleeper;
  EXPECT_FALSE(ReadProcStat(sleeper.pid())->Stopped());
  kill(sleeper.pid(), SIGSTOP);
  int status = 0;
  waitpid(sleeper.pid(), &status, WUNTRACED);
  EXPECT_TRUE(ReadProcStat(sleeper.pid())->Stopped());
  EXPECT_FALSE(ReadProcStat(2147483000).has_value());
}

}  // namespace
}  // namespace adjoin
