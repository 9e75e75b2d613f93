// Workers that mpirun starts, Open MPI's and MPICH's, several on this machine: each stands for a rank, and what they
// leave when their launcher ends them, the next ones go on with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/e2e/line_job.h"
#include "tests/e2e/mpirun.h"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kTasks = 3;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class MpiWorkersTest : public ::testing::TestWithParam<Mpirun> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs::exists(GetParam().command[0])) << "tools/setup installs it";
    auto cluster = LocalCluster::Start(/*nodes=*/0, /*slots_per_node=*/0);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    char host[HOST_NAME_MAX + 1] = {};
    ASSERT_EQ(gethostname(host, HOST_NAME_MAX), 0);
    host_ = host;
  }
  // `before`: a command that runs each worker.
  std::unique_ptr<ChildProgram> Launch(const std::vector<std::string>& more = {}, int tasks = kTasks,
                                       const std::vector<std::string>& before = {}) {
    std::vector<std::string> arguments = GetParam().command;
    arguments.insert(arguments.end(), {"-n", absl::StrCat(tasks)});
    arguments.insert(arguments.end(), before.begin(), before.end());
    arguments.insert(arguments.end(),
                     {fs::absolute(Runfile("worker/adjoin-worker")), "--coordinator", cluster_->address(),
                      "--data-root", cluster_->data_root(), "--output-root", cluster_->output_root(), "--state-dir",
                      cluster_->folder() + "/workers", "--rank-binary", fs::absolute(Runfile("worker/adjoin-rank"))});
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto child = ChildProgram::Start(arguments, MpirunEnvironment(cluster_->folder()),
                                     absl::StrCat(cluster_->folder(), "/launch-", ++launches_));
    EXPECT_TRUE(child.ok()) << child.status();
    return child.ok() ? *std::move(child) : nullptr;
  }
  bool HasState(const std::string& worker) const {
    return fs::exists(absl::StrCat(cluster_->folder(), "/workers/", worker, "/lock"));
  }
  // The slots of the workers that are ready, by name.
  std::map<std::string, uint32_t> Workers() {
    std::map<std::string, uint32_t> slots;
    const absl::StatusOr<ListJobsResponse> response = cluster_->ListJobs();
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return slots;
    for (const WorkerSummary& worker : response->worker()) {
      if (worker.state().empty() || worker.state() == "ready") slots[worker.name()] = worker.slots();
    }
    return slots;
  }
  void ExpectWorkers(ChildProgram& launcher) {
    const std::map<std::string, uint32_t> expected = {{host_ + "-0", 1}, {host_ + "-1", 1}, {host_ + "-2", 1}};
    const Deadline deadline = Within(90);
    while (Workers() != expected && !deadline.Expired()) absl::SleepFor(absl::Milliseconds(20));
    ASSERT_EQ(Workers(), expected) << launcher.Output() << launcher.Errors();
    for (const auto& [name, slots] : expected) EXPECT_TRUE(HasState(name)) << name;
    // They share the machine's memory.
    struct sysinfo machine = {};
    ASSERT_EQ(sysinfo(&machine), 0);
    const absl::StatusOr<ListJobsResponse> response = cluster_->ListJobs();
    ASSERT_TRUE(response.ok()) << response.status();
    for (const WorkerSummary& worker : response->worker()) {
      EXPECT_GT(worker.memory_bytes(), 0u);
      EXPECT_LE(kTasks * worker.memory_bytes(), uint64_t{machine.totalram} * machine.mem_unit);
    }
  }
  absl::StatusOr<JobSummary> WaitForCheckpoint(const std::string& job) {
    return cluster_->WaitUntil(
        job, [](const JobSummary& s) { return s.state() == RUNNING && s.progress().checkpoint_step() > 0; },
        Within(120));
  }

  std::unique_ptr<LocalCluster> cluster_;
  std::string host_;
  int launches_ = 0;
};

TEST_P(MpiWorkersTest, EachIsOneRankAndTheNextGoOnWithTheirJob) {
  auto launcher = Launch();
  ASSERT_NE(launcher, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectWorkers(*launcher));
  const std::string spec = absl::StrReplaceAll(
      kLineJob,
      {{"steps: 3", "steps: 1000000000"},
       {"ranks: 2", "ranks: 3"},
       {"[2, 1]", "[3, 1]"},
       {"output_dir:", "checkpoint { dir: \"ckpt\" every_steps: 20 } restart { max_restarts: 3 } output_dir:"}});
  const absl::StatusOr<std::string> job = cluster_->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  absl::StatusOr<JobSummary> running = WaitForCheckpoint(*job);
  ASSERT_TRUE(running.ok()) << running.status();
  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(*job);
  ASSERT_TRUE(described.ok()) << described.status();
  std::map<std::string, int> ranks;
  for (const RankStatus& rank : described->rank()) ++ranks[rank.worker()];
  EXPECT_EQ(ranks, (std::map<std::string, int>{{host_ + "-0", 1}, {host_ + "-1", 1}, {host_ + "-2", 1}}));

  launcher->Signal(SIGTERM);
  const absl::StatusOr<int> code = launcher->Wait(Within(90));
  ASSERT_TRUE(code.ok()) << code.status() << launcher->Output() << launcher->Errors();
  EXPECT_THAT(ProcessesLeft(cluster_->folder() + "/workers", Within(30)), IsEmpty());

  auto next = Launch();
  ASSERT_NE(next, nullptr);
  ASSERT_NO_FATAL_FAILURE(ExpectWorkers(*next));
  running = cluster_->WaitUntil(
      *job,
      [](const JobSummary& s) { return s.state() == RUNNING && s.progress().resumed_step() > 0 && s.epoch() > 1; },
      Within(120));
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_GE(running->progress().resumed_step(), 20u);
  EXPECT_EQ(cluster_->Cli({"cancel", *job}).exit_code, 0);
  EXPECT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());
  next->Signal(SIGTERM);
  ASSERT_TRUE(next->Wait(Within(90)).ok());
  EXPECT_THAT(ProcessesLeft(cluster_->folder() + "/workers", Within(30)), IsEmpty());
}

TEST_P(MpiWorkersTest, WhatTheyCannotShareIsRefused) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--listen", "127.0.0.1:7412"},
                                             {"--ready-file", cluster_->folder() + "/ready"},
                                             {"--calibrate"},
                                             {"--bind-ranks", "cores"},
                                             {"--gpus", "all"}}) {
    auto launcher = Launch(flags);
    ASSERT_NE(launcher, nullptr);
    const absl::StatusOr<int> code = launcher->Wait(Within(60));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_NE(*code, 0);
    EXPECT_THAT(launcher->Errors(), HasSubstr("a launcher has started 3 of these programs on this machine"));
  }
}

TEST_P(MpiWorkersTest, MachinesMayShareTheFolder) {
  if (system("unshare --uts true") != 0) GTEST_SKIP() << "only root gives a process another host name";
  const auto launch = [this](const std::string& host) {
    return Launch({"--slots", "1", "--gpus", "none"}, /*tasks=*/1,
                  {"/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname \"$0\" && exec \"$@\"", host});
  };
  const auto one = launch("node-7"), other = launch("node-8");
  ASSERT_NE(one, nullptr);
  ASSERT_NE(other, nullptr);
  const std::map<std::string, uint32_t> expected = {{"node-7", 1}, {"node-8", 1}};
  const Deadline deadline = Within(90);
  while (Workers() != expected && !deadline.Expired()) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(Workers(), expected) << one->Errors() << other->Errors();
  for (const auto& [name, slots] : expected) EXPECT_TRUE(HasState(name)) << name;
  for (ChildProgram* const launcher : {one.get(), other.get()}) {
    launcher->Signal(SIGTERM);
    EXPECT_TRUE(launcher->Wait(Within(90)).ok());
  }
  EXPECT_THAT(ProcessesLeft(cluster_->folder() + "/workers", Within(30)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, MpiWorkersTest, ::testing::ValuesIn(kMpiruns),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace adjoin
