#include "cli/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

namespace adjoin {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Launch> Of(const std::map<std::string, std::string>& environment) {
  return LaunchOf([&](const char* name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? nullptr : entry->second.c_str();
  });
}

TEST(LaunchTest, KnowsTheTaskOfEachLauncher) {
  const auto expect = [](const std::map<std::string, std::string>& environment, int task, int tasks) {
    const auto launch = Of(environment);
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(launch->task, task);
    EXPECT_EQ(launch->tasks, tasks);
  };
  expect({}, 0, 1);
  expect({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, 2, 4);
  expect({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}, 1, 2);
  expect({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NUM_NODES", "1"}}, 3, 8);
  // A batch script; and MPICH's mpirun, whose own processes srun has started.
  expect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, 0, 1);
  expect({{"SLURM_PROCID", "0"},
          {"SLURM_STEP_NUM_TASKS", "1"},
          {"SLURM_STEP_NUM_NODES", "1"},
          {"PMI_RANK", "1"},
          {"PMI_SIZE", "4"},
          {"MPI_LOCALNRANKS", "4"}},
         1, 4);
}

TEST(LaunchTest, SaysWhatCannotBe) {
  const auto refusal = [](const std::map<std::string, std::string>& environment) {
    return std::string(Of(environment).status().message());
  };
  EXPECT_THAT(
      refusal({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
      HasSubstr("the 4 tasks are on several machines, but `adjoin run` is for one (OMPI_COMM_WORLD_LOCAL_SIZE is 2)"));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NUM_NODES", "2"}}),
              HasSubstr("SLURM_STEP_NUM_NODES is 2"));
  EXPECT_THAT(refusal({{"PMI_RANK", "3"}}), HasSubstr("PMI_RANK is 3, but PMI_SIZE is not set"));
  EXPECT_THAT(refusal({{"PMI_RANK", "3"}, {"PMI_SIZE", "2"}}),
              HasSubstr("PMI_SIZE is \"2\"; right would be a number from 4 to"));
}

TEST(LaunchTest, TheOthersEndWithTheFirstTasksCode) {
  const Launch launch = {"PMI_RANK", 0, 3};
  const pid_t launcher = fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    std::vector<pid_t> tasks;
    for (int i = 0; i < 3; ++i) {
      const pid_t pid = fork();
      if (pid > 0) {
        tasks.push_back(pid);
        continue;
      }
      if (i > 0) _exit(WaitForFirstTask({"PMI_RANK", i, 3}).value_or(99));
      auto first = FirstTask::Start(launch);
      if (!first.ok()) _exit(98);
      (*first)->Finish(103);
      _exit(103);
    }
    int right = 0;
    for (const pid_t pid : tasks) {
      int status = 0;
      waitpid(pid, &status, 0);
      right += WIFEXITED(status) && WEXITSTATUS(status) == 103;
    }
    _exit(right);
  }
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(LaunchTest, AFirstTaskThatDoesNotComeIsAnError) {
  const auto code = WaitForFirstTask({"SLURM_PROCID", 2, 4}, absl::Milliseconds(1));
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("task 0 of 4 does not answer on this machine"));
}

TEST(LaunchTest, TheJobsRanksAreNoTasksOfTheLauncher) {
  cpu_set_t before, one, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  setenv("PMIX_NAMESPACE", "x", 1);
  setenv("UCX_TLS", "tcp", 1);
  LeaveLauncher({"OMPI_COMM_WORLD_RANK", 0, 1});
  EXPECT_EQ(getenv("OMPI_COMM_WORLD_RANK"), nullptr);
  EXPECT_EQ(getenv("PMIX_NAMESPACE"), nullptr);
  EXPECT_STREQ(getenv("UCX_TLS"), "tcp");
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_GE(CPU_COUNT(&after), CPU_COUNT(&before));
}

}  // namespace
}  // namespace adjoin
