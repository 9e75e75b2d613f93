#include "worker/daemon/proc_stat.h"

#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(ProcStatTest, KnowsThisProcess) {
  const std::optional<ProcStat> stat = ReadProcStat(getpid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'R');
  EXPECT_GT(stat->start_time, 0u);
  EXPECT_EQ(stat->parent, getppid());
}

// A process may go between the opening of its file and the reading.
TEST(ProcStatTest, IsAbsentForAProcessThatHasEnded) {
  for (int i = 0; i < 500; ++i) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) _exit(0);
    std::thread reaper([pid] { waitpid(pid, nullptr, 0); });
    while (ReadProcStat(pid).has_value()) {
    }
    reaper.join();
    EXPECT_FALSE(ReadProcStat(pid).has_value());
  }
}

}  // namespace
}  // namespace adjoin
