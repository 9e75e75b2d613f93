#include "cli/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<Launch> Of(const std::map<std::string, std::string>& environment) {
  return LaunchOf([&](const char* name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? nullptr : entry->second.c_str();
  });
}

constexpr uid_t kStranger = 65534;

// What connect and bind have in common.
using Naming = int (*)(int, const sockaddr*, socklen_t);

UniqueFd SocketWith(Naming naming, const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (naming(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) fd.reset();
  return fd;
}

std::future<absl::StatusOr<int>> Wait(const Launch& launch) {
  return std::async(std::launch::async, [launch] { return WaitForFirstTask(launch); });
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
  const Launch launch = {"PMI_RANK", 0, 3, "codes"};
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
      if (i > 0) _exit(WaitForFirstTask({"PMI_RANK", i, 3, "codes"}).value_or(99));
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
  const auto code = WaitForFirstTask({"SLURM_PROCID", 2, 4, "alone"}, absl::Milliseconds(1));
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("task 0 of 4 does not answer on this machine"));
}

TEST(LaunchTest, LaunchesOfOneProcessHaveNamesOfTheirOwn) {
  const auto name = [](const std::string& job, const std::string& step) {
    return SocketName(Of({{"SLURM_PROCID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_NUM_NODES", "1"},
                          {"SLURM_JOB_ID", job},
                          {"SLURM_STEP_ID", step}})
                          .value());
  };
  EXPECT_EQ(name("7", "1"), name("7", "1"));
  EXPECT_NE(name("7", "1"), name("7", "2"));
  EXPECT_NE(name("7", "1"), name("71", ""));
  EXPECT_LE(name(std::string(1000, 'x'), "1").size(), sizeof(sockaddr_un::sun_path) - 1);
}

TEST(LaunchTest, AConnectionThatLeavesIsNoTask) {
  const Launch launch = {"PMI_RANK", 0, 2, "leaves"};
  auto first = FirstTask::Start(launch);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_GE(SocketWith(connect, SocketName(launch)).get(), 0);
  auto code = Wait({"PMI_RANK", 1, 2, "leaves"});
  (*first)->Finish(103);
  first->reset();
  EXPECT_EQ(code.get().value_or(-1), 103);
}

TEST(LaunchTest, TheFirstTaskDoesNotWaitAtTheEndForTasksThatNeverCame) {
  auto first = FirstTask::Start({"SLURM_PROCID", 0, 4, "shell"});
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Time begin = absl::Now();
  (*first)->Finish(0, absl::ZeroDuration());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(8));
}

// Another user's process, which makes a socket and stays until End.
class StrangerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  }
  // Returns whether the child could become another user and `act`.
  template <typename Act>
  bool Start(Act act) {
    int told[2], stay[2];
    if (pipe(told) != 0 || pipe(stay) != 0) return false;
    pid_ = fork();
    if (pid_ == 0) {
      close(stay[1]);
      alarm(120);
      if (setresuid(kStranger, kStranger, kStranger) != 0) _exit(97);
      const UniqueFd fd = act();
      char byte = 0;
      if (fd.get() < 0 || write(told[1], &byte, 1) != 1) _exit(96);
      const bool heard = listens_ ? false : read(fd.get(), &byte, 1) > 0;
      [[maybe_unused]] const ssize_t end = read(stay[0], &byte, 1);
      _exit(heard ? 1 : 0);
    }
    close(told[1]);
    close(stay[0]);
    told_ = UniqueFd(told[0]);
    stay_ = UniqueFd(stay[1]);
    char byte = 0;
    return pid_ > 0 && read(told_.get(), &byte, 1) == 1;
  }
  int End() {
    stay_.reset();
    int status = 0;
    return waitpid(pid_, &status, 0) == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool listens_ = false;
  pid_t pid_ = -1;
  UniqueFd told_, stay_;
};

TEST_F(StrangerTest, AnotherUsersConnectionIsNoTask) {
  const Launch launch = {"PMI_RANK", 0, 2, "stranger"};
  auto first = FirstTask::Start(launch);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string name = SocketName(launch);
  if (!Start([&] { return SocketWith(connect, name); })) GTEST_SKIP() << "no other user here: " << End();
  auto code = Wait({"PMI_RANK", 1, 2, "stranger"});
  (*first)->Finish(103);
  first->reset();
  EXPECT_EQ(code.get().value_or(-1), 103);
  EXPECT_EQ(End(), 0) << "the stranger heard the code";
}

TEST_F(StrangerTest, AnotherUsersSocketIsNotTheFirstTask) {
  const Launch launch = {"PMI_RANK", 1, 2, "squatter"};
  const std::string name = SocketName(launch);
  listens_ = true;
  const bool there = Start([&] {
    UniqueFd fd = SocketWith(bind, name);
    if (listen(fd.get(), 1) != 0) fd.reset();
    return fd;
  });
  if (!there) GTEST_SKIP() << "no other user here: " << End();
  const auto code = WaitForFirstTask(launch);
  EXPECT_EQ(code.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("belongs to user 65534, not to task 0"));
  EXPECT_EQ(End(), 0);
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
  LeaveLauncher({"OMPI_COMM_WORLD_RANK", 0, 1, ""});
  EXPECT_EQ(getenv("OMPI_COMM_WORLD_RANK"), nullptr);
  EXPECT_EQ(getenv("PMIX_NAMESPACE"), nullptr);
  EXPECT_STREQ(getenv("UCX_TLS"), "tcp");
  if (CPU_COUNT(&before) == 1) GTEST_SKIP() << "one processor cannot become more";
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_GE(CPU_COUNT(&after), CPU_COUNT(&before));
}

// The processors, in order.
std::vector<int> Numbers(const cpu_set_t& set) {
  std::vector<int> numbers;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) numbers.push_back(i);
  }
  return numbers;
}

TEST(LaunchTest, UnderSlurmTheProcessorsAreThoseOfAllTasksAndNoOthers) {
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
  const auto under = [&](const std::string& task, const std::map<std::string, std::string>& environment) {
    // Process 1 has all processors, as Slurm's daemon.
    cpu_set_t all = ProcessorsOf(
        {task, 0, 2, ""},
        [&](const char* name) {
          const auto entry = environment.find(name);
          return entry == environment.end() ? nullptr : entry->second.c_str();
        },
        /*launcher=*/1);
    cpu_set_t added;
    CPU_XOR(&added, &all, &own);
    return Numbers(added);
  };
  for (const char* task : {"SLURM_PROCID", "PMI_RANK"}) {
    EXPECT_THAT(under(task, {}), IsEmpty()) << "the task's own";
    EXPECT_THAT(under(task, {{"SLURM_CPU_BIND_TYPE", "none"}, {"SLURM_CPU_BIND_LIST", "0xff00"}}), IsEmpty());
    EXPECT_THAT(under(task, {{"SLURM_CPU_BIND_TYPE", "mask_cpu:"},
                             {"SLURM_CPU_BIND_LIST", "0x10000000000000000000000000,0x60000000000000000000000000"}}),
                ElementsAre(100, 101, 102));
    EXPECT_THAT(under(task, {{"SLURM_CPU_BIND_TYPE", "map_cpu:"}, {"SLURM_CPU_BIND_LIST", "101,900,-1,5000,x"}}),
                ElementsAre(101, 900));
  }
}

TEST(LaunchTest, UnderMpirunTheProcessorsAreMpirunsOwn) {
  cpu_set_t whole, one, all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(whole), &whole), 0);
  if (CPU_COUNT(&whole) < 2) GTEST_SKIP() << "one processor cannot become more";
  const std::vector<int> numbers = Numbers(whole);
  const auto nothing = [](const char*) -> const char* { return nullptr; };
  // mpirun, which has all; its task has one.
  CPU_ZERO(&one);
  CPU_SET(numbers[0], &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  std::promise<pid_t> mpirun;
  std::promise<void> end;
  std::thread launcher([&] {
    sched_setaffinity(0, sizeof(whole), &whole);
    mpirun.set_value(static_cast<pid_t>(syscall(SYS_gettid)));
    end.get_future().wait();
  });
  all = ProcessorsOf({"OMPI_COMM_WORLD_RANK", 0, 2, ""}, nothing, mpirun.get_future().get());
  EXPECT_EQ(Numbers(all), numbers);
  end.set_value();
  launcher.join();
  // mpirun is bound itself: no task gets more.
  all = ProcessorsOf({"OMPI_COMM_WORLD_RANK", 0, 2, ""}, nothing, getpid());
  EXPECT_EQ(Numbers(all), Numbers(one));
  ASSERT_EQ(sched_setaffinity(0, sizeof(whole), &whole), 0);
}

}  // namespace
}  // namespace adjoin
