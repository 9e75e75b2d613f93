// The programs of the control plane as an administrator meets them: their flags and files, what they refuse, how they
// stop.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fault/control_plane_fixture.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ControlPlaneTest, AnInterruptOnlyStopsFollowing) {
  StartCluster(1, 1);
  std::string file = cluster_->output_root() + "/job.textproto";
  std::ofstream(file) << FakeJob("hang", 1);
  const std::vector<std::vector<std::string>> commands = {{"submit", "--follow", file}, {"follow", "job-1"}};
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> arguments = {Runfile("cli/adjoin"), "--coordinator", cluster_->address()};
    arguments.insert(arguments.end(), command.begin(), command.end());
    auto follow = ChildProgram::Start(arguments, {}, cluster_->output_root() + "/" + command[0]);
    ASSERT_TRUE(follow.ok()) << follow.status();
    for (Deadline deadline = Within(30);
         (*follow)->Output().find("running") == std::string::npos && !deadline.Expired();) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    (*follow)->Signal(SIGINT);
    absl::StatusOr<int> code = (*follow)->Wait(Within(30));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 0) << command[0];
    EXPECT_THAT((*follow)->Output(), HasSubstr("job-1 goes on; follow it again with `adjoin follow job-1`"));
    WaitForState("job-1", RUNNING);
  }
}

TEST_F(ControlPlaneTest, StoppedProgramsTakeTheirRanksWithThem) {
  StartCluster(2, 2, {}, {"ADJOIN_WORKER_DRAIN_SECONDS=0.5"});
  std::vector<pid_t> pids;
  for (const char* name : {"hang", "stubborn"}) {
    std::string job = Submit(name, 2);
    WaitForState(job, RUNNING);
    auto own = cluster_->RankPids(job);
    ASSERT_TRUE(own.ok()) << own.status();
    pids.insert(pids.end(), own->begin(), own->end());
  }
  ASSERT_EQ(pids.size(), 4);
  const absl::Time begin = absl::Now();
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  for (pid_t pid : pids) EXPECT_FALSE(Alive(pid)) << pid;
}

TEST_F(ControlPlaneTest, AProxyForTheWebIsNotUsed) {
  StartCluster(1, 1, {}, {"http_proxy=http://127.0.0.1:9", "no_proxy="});
  EXPECT_EQ(cluster_->Cli({"ps"}).exit_code, 0);
}

TEST_F(ControlPlaneTest, OutputThatCannotBeWrittenIsAnError) {
  StartCluster(1, 1);
  auto child = ChildProgram::Start(
      {"/bin/sh", "-c",
       absl::StrCat("exec ", Runfile("cli/adjoin"), " --coordinator ", cluster_->address(), " ps > /dev/full")},
      {}, cluster_->output_root() + "/full");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ((*child)->Wait(Within(20)).value_or(-1), 1);
  EXPECT_THAT((*child)->Errors(), HasSubstr("standard output cannot be written"));
}

TEST_F(ControlPlaneTest, FlagsComeFromTheEnvironmentAndFromFilesToo) {
  StartCluster(1, 1);
  std::string folder = cluster_->output_root();
  std::ofstream(folder + "/adjoin.conf") << "coordinator = \"" << cluster_->address() << "\"\n";
  std::ofstream(folder + "/worker.conf") << "name = \"from-file\"\nslots = 3\ndata-root = \"" << folder << "\"\n";
  auto run = [&](const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    static int count = 0;
    auto child = ChildProgram::Start(command, environment, absl::StrCat(folder, "/flags-", ++count));
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  };
  auto worker = run({Runfile("worker/adjoin-worker"), "--config", folder + "/worker.conf"},
                    {"ADJOIN_COORDINATOR=" + cluster_->address(), "ADJOIN_WORKER_SLOTS=5",
                     "ADJOIN_WORKER_RANK_BINARY=" + Runfile("worker/testing/fake-rank"),
                     "ADJOIN_WORKER_STATE_DIR=" + folder + "/state"});
  auto listed = [&] {
    auto ps = run({Runfile("cli/adjoin"), "ps"}, {"ADJOIN_CONFIG=" + folder + "/adjoin.conf"});
    EXPECT_EQ(ps->Wait(Within(20)).value_or(-1), 0) << ps->Errors();
    return ps->Output();
  };
  std::string last = listed();
  for (Deadline deadline = Within(30); last.find("from-file") == std::string::npos && !deadline.Expired();)
    last = listed();
  EXPECT_THAT(last, ::testing::ContainsRegex("from-file +[^ ]+ +5 +5"));
  EXPECT_EQ(worker->Stop(Within(20)).value_or(-1), 0) << worker->Errors();
  // Wrong usage is named, with exit code 2; a value that makes no sense with 1.
  auto refused = [&](const std::vector<std::string>& command, int code, const std::string& text) {
    auto child = run(command, {});
    EXPECT_EQ(child->Wait(Within(20)).value_or(-1), code) << text;
    EXPECT_THAT(child->Errors(), HasSubstr(text));
  };
  refused({Runfile("worker/adjoin-worker"), "--slots", "0"}, 2, "--slots");
  refused({Runfile("worker/adjoin-worker"), "--data-port-range", "7"}, 1,
          "--data-port-range '7' is not a range of ports");
  refused({Runfile("coordinator/adjoin-coordinator"), "--heartbeat-seconds", "9"}, 1, "at least twice");
  refused({Runfile("cli/adjoin"), "--coordinator", "node-1:7411", "ps"}, 1, "mutual TLS");
  refused({Runfile("cli/adjoin"), "--coordinator", "7411", "ps"}, 1, "is not HOST:PORT");
}

TEST_F(ControlPlaneTest, APlanNeedsNoCoordinator) {
  StartCluster(1, 1);
  std::string file = cluster_->output_root() + "/job.textproto";
  std::ofstream(file) << FakeJob("succeed", 2);
  ASSERT_EQ(cluster_->Stop(), absl::OkStatus());
  LocalCluster::CliResult here = cluster_->Cli({"plan", file, "--data-root", cluster_->data_root()});
  EXPECT_EQ(here.exit_code, 0) << here.err;
  EXPECT_THAT(here.out, AllOf(HasSubstr("fc.weight"), HasSubstr("plan "), Not(HasSubstr("is not known here"))));
  LocalCluster::CliResult elsewhere = cluster_->Cli({"plan", file});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.out, HasSubstr("The size of data set 'train' is not known here"));
  EXPECT_EQ(cluster_->Cli({"plan", "/nowhere.textproto"}).exit_code, 1);
}

TEST_F(ControlPlaneTest, OneCoordinatorPerStateFolderAndOnLoopbackOnly) {
  StartCluster(1, 1);
  std::string folder = cluster_->output_root();
  auto run = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {Runfile("coordinator/adjoin-coordinator")};
    command.insert(command.end(), flags.begin(), flags.end());
    static int count = 0;
    auto child = ChildProgram::Start(command, {}, absl::StrCat(folder, "/coordinator-", ++count));
    EXPECT_TRUE(child.ok()) << child.status();
    absl::StatusOr<int> code = (*child)->Wait(Within(20));
    EXPECT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(code.value_or(-1), 1);
    return (*child)->Errors();
  };
  std::string state = std::filesystem::path(folder).parent_path() / "coordinator";
  EXPECT_THAT(run({"--listen", "127.0.0.1:0", "--state-dir", state}), HasSubstr("another process uses"));
  EXPECT_THAT(run({"--listen", "0.0.0.0:0", "--state-dir", folder + "/s"}), HasSubstr("mutual TLS"));
  EXPECT_THAT(run({"--listen", cluster_->address(), "--state-dir", folder + "/s"}),
              AllOf(HasSubstr("another program listens there (`ss -ltnp sport = :"), Not(HasSubstr("chttp2"))));
}

TEST_F(ControlPlaneTest, WithoutACoordinatorTheCommandTellsHowToStartOne) {
  StartCluster(1, 1);
  ASSERT_EQ(cluster_->Stop(), absl::OkStatus());
  LocalCluster::CliResult result = cluster_->Cli({"ps", "--retry-seconds", "0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr(absl::StrCat("adjoin: error: cannot reach the coordinator at ", cluster_->address())));
  EXPECT_EQ(cluster_->Cli({"nonsense"}).exit_code, 2);
}

}  // namespace
}  // namespace adjoin
