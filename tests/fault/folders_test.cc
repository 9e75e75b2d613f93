// Whose folders are whose, also when the coordinator knows nothing any more; with real processes that speak TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/endpoint.h"
#include "base/security/certificates_fixture.h"
#include "base/security/tls.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class FoldersTest : public CertificatesTest {
 protected:
  void SetUp() override {
    MakeCerts("certs",
              "--server localhost,127.0.0.1 --client admin root --client user alice --client user bob "
              "--client worker worker-0");
  }
  std::vector<std::string> Flags(const std::string& who) const {
    const TlsFiles files = Files(who);
    return {"--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key};
  }
  void StartCluster(std::vector<std::string> worker_flags = {}) {
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    auto credentials = MakeChannelCredentials({"127.0.0.1", 0}, Files("admin-root"), "");
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    options.credentials = *credentials;
    options.coordinator.flags = Flags("server");
    options.worker[0].flags = Flags("worker-worker-0");
    options.worker_flags = std::move(worker_flags);
    auto cluster = LocalCluster::Start(1, 2, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  // The coordinator begins anew, with an empty store.
  void LoseTheStore() {
    ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
    fs::remove_all(cluster_->folder() + "/coordinator");
    ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
    ASSERT_EQ(cluster_->WaitForWorkers(Within(60)), absl::OkStatus());
  }
  LocalCluster::CliResult Cli(const std::string& who, const std::vector<std::string>& arguments) {
    std::vector<std::string> all = Flags(who);
    all.insert(all.end(), arguments.begin(), arguments.end());
    return cluster_->Cli(all);
  }
  // The id. The test fails where it is refused.
  std::string Submit(const std::string& who, const std::string& spec) {
    const std::string path = folder_ + "/job.textproto";
    std::ofstream(path) << spec;
    LocalCluster::CliResult result = Cli(who, {"submit", path});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find_first_of(" \n"));
  }
  JobSummary RunAs(const std::string& who, const std::string& spec) {
    auto end = cluster_->WaitFor(Submit(who, spec), Within(60));
    EXPECT_TRUE(end.ok()) << end.status();
    return end.ok() ? *end : JobSummary();
  }
  static bool AwaitGone(const std::string& path) {
    const Deadline deadline = Within(60);
    while (fs::exists(path) && !deadline.Expired()) absl::SleepFor(absl::Milliseconds(20));
    return !fs::exists(path);
  }
  std::string Output(const std::string& path) const { return cluster_->output_root() + "/" + path; }

  std::unique_ptr<LocalCluster> cluster_;
};

// FakeJob("succeed", 1) with another folder.
std::string JobIn(const std::string& output_dir, const std::string& more = "") {
  return FakeJob("succeed", 1, absl::StrCat(more, " output_dir: \"", output_dir, "\""));
}

TEST_F(FoldersTest, FoldersStayTheirOwnersWhenTheStoreIsLost) {
  StartCluster();
  JobSummary end = RunAs("user-alice", JobIn("alice/run"));
  ASSERT_EQ(end.state(), SUCCEEDED) << end.reason();
  const fs::file_time_type written = fs::last_write_time(Output("alice/run/result.bin"));
  LoseTheStore();

  const std::string restarts = "restart { max_restarts: 5 on: \"rank_lost\" on: \"error\" on: \"node_lost\" } ";
  for (const std::string& spec :
       {JobIn("alice/run", restarts), JobIn("alice/run/mine"), JobIn("alice"),
        JobIn("bob/a", "checkpoint { dir: \"alice/run/checkpoints\" every_steps: 5 }"),
        JobIn("bob/b", "checkpoint { dir: \"bob/b/c\" every_steps: 5 resume_from: \"alice/run\" }")}) {
    end = RunAs("user-bob", spec);
    EXPECT_EQ(end.state(), FAILED) << spec;
    EXPECT_THAT(end.reason(), HasSubstr("a folder of 'alice'")) << spec;
    EXPECT_EQ(end.attempts(), 1) << "no other attempt would do better";
  }
  EXPECT_EQ(fs::last_write_time(Output("alice/run/result.bin")), written);
  EXPECT_FALSE(fs::exists(Output("alice/run/mine")));
  EXPECT_FALSE(fs::exists(Output("alice/run/checkpoints")));
  EXPECT_EQ(RunAs("user-bob", JobIn("bob/c")).state(), SUCCEEDED);
  LoseTheStore();  // bob's jobs of before stand in nobody's way
  EXPECT_EQ(RunAs("user-alice", JobIn("alice/run")).state(), SUCCEEDED);
  EXPECT_EQ(RunAs("admin-root", JobIn("bob/c")).state(), SUCCEEDED);
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
}

// FakeJob with the name `kind` in its own folder.
std::string KindOfJob(const std::string& kind, const std::string& output_dir) {
  return FakeJob(kind, 1, absl::StrCat("output_dir: \"", output_dir, "\""));
}

TEST_F(FoldersTest, AnEndedJobIsRemovedWithWhatItLeft) {
  StartCluster();
  JobSummary end = RunAs("user-alice", KindOfJob("attempt", "alice/run"));
  ASSERT_EQ(end.state(), SUCCEEDED) << end.reason();
  const std::string job = end.job_id();
  JobSummary failed = RunAs("user-alice", KindOfJob("attempt-fails", "alice/failed"));
  ASSERT_EQ(failed.state(), FAILED) << failed.reason();
  ASSERT_TRUE(fs::exists(Output("alice/failed/attempt-2/result.bin")));
  std::ofstream(Output("alice/failed/notes")) << "a user's";

  EXPECT_THAT(Cli("user-bob", {"rm", job, "--files"}).err, HasSubstr("user bob may not change"));
  const std::string running = Submit("user-alice", KindOfJob("hang", "alice/hang"));
  LocalCluster::CliResult refused = Cli("user-alice", {"rm", running});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("only a job that has ended can be removed"));
  EXPECT_EQ(Cli("user-alice", {"cancel", running}).exit_code, 0);
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());

  LocalCluster::CliResult done = Cli("user-alice", {"rm", job, "--files"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr(absl::StrCat(job, " is removed, with ")));
  EXPECT_FALSE(fs::exists(Output("alice/run")));
  EXPECT_THAT(Cli("user-alice", {"describe", job}).err, HasSubstr("there is no job"));
  EXPECT_TRUE(AwaitGone(absl::StrCat(cluster_->folder(), "/coordinator/jobs/", job))) << "its log";
  EXPECT_THAT(Cli("user-alice", {"rm", failed.job_id(), "--files"}).out, HasSubstr(" is removed, with 2 files of "));
  EXPECT_FALSE(fs::exists(Output("alice/failed/attempt-2")));
  EXPECT_TRUE(fs::exists(Output("alice/failed/notes")));

  // Without its worker the files stay, and so does the job.
  end = RunAs("user-alice", KindOfJob("attempt", "alice/run"));  // which is free again
  ASSERT_EQ(end.state(), SUCCEEDED) << end.reason();
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());
  ASSERT_EQ(cluster_->KillWorker(0), absl::OkStatus());
  refused = Cli("user-alice", {"rm", end.job_id(), "--files"});
  EXPECT_EQ(refused.exit_code, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("is not connected"));
  done = Cli("user-alice", {"rm", end.job_id()});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("its files stay"));
  EXPECT_TRUE(fs::exists(Output("alice/run/result.bin")));

  // What was removed does not come back.
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->StartWorker(0), absl::OkStatus());
  ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->WaitForWorkers(Within(60)), absl::OkStatus());
  EXPECT_THAT(Cli("user-alice", {"describe", job}).err, HasSubstr("there is no job"));
}

TEST_F(FoldersTest, FoldersOfFailedAttemptsAreRemovedInTheEnd) {
  StartCluster({"--keep-failed-hours", "0"});
  JobSummary failed = RunAs("user-alice", KindOfJob("attempt-fails", "alice/failed"));
  ASSERT_EQ(failed.state(), FAILED) << failed.reason();
  EXPECT_TRUE(AwaitGone(absl::StrCat(Output("alice/failed/attempt-"), failed.epoch())));
  EXPECT_TRUE(fs::exists(Output("alice/failed/.adjoin-owner")));
}

}  // namespace
}  // namespace adjoin
