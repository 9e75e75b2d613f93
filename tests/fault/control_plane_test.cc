// The control plane with real processes: coordinator, daemons, command, and ranks that do what the job's name demands.
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/protocol.h"
#include "tests/fault/control_plane_fixture.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ControlPlaneTest, AJobSucceedsAndItsResultsCanBeFetched) {
  StartCluster(2, 2);
  std::string job = Submit("succeed", 4);
  JobSummary end = End(job);
  EXPECT_EQ(end.state(), SUCCEEDED) << end.reason();
  EXPECT_EQ(end.progress().loss(), 0.25);

  std::string file = cluster_->output_root() + "/fetched";
  LocalCluster::CliResult get = cluster_->Cli({"get", job, "result.bin", "-O", file});
  EXPECT_EQ(get.exit_code, 0) << get.err;
  EXPECT_EQ(ReadFile(file), std::string(3000000, 'r'));
  EXPECT_EQ(cluster_->Cli({"get", job, "result.bin", "-O", "-"}).out.size(), 3000000);
  for (const char* wrong : {"../succeed/result.bin", "..", "/etc/passwd", "other"}) {
    LocalCluster::CliResult refused = cluster_->Cli({"get", job, wrong, "-O", file + ".wrong"});
    EXPECT_EQ(refused.exit_code, 1) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("adjoin: error: ")) << wrong;
    EXPECT_FALSE(std::filesystem::exists(file + ".wrong"));
  }
  // A link out of the output root.
  const std::string result = absl::StrCat(cluster_->output_root(), "/", job, "/result.bin");
  std::filesystem::remove(result);
  std::filesystem::create_symlink("/etc/passwd", result);
  EXPECT_THAT(cluster_->Cli({"get", job, "result.bin", "-O", "-"}).err, HasSubstr("symbolic link"));

  LocalCluster::CliResult logs = cluster_->Cli({"logs", job});
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(logs.out, HasSubstr(absl::StrCat("rank ", rank, " does succeed")));
  logs = cluster_->Cli({"logs", "succeed", "--rank", "1,3", "-f"});
  EXPECT_THAT(logs.out, AllOf(HasSubstr("rank 1 does"), HasSubstr("rank 3 does"), Not(HasSubstr("rank 0 does"))));
  LocalCluster::CliResult described = cluster_->Cli({"describe", job});
  EXPECT_THAT(described.out, AllOf(HasSubstr("succeeded"), HasSubstr("worker-1"), HasSubstr("result.bin")));
  EXPECT_TRUE(cluster_->WaitUntilIdle(Within(20)).ok());
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
}

TEST_F(ControlPlaneTest, AModelIsExportedWholeAndReplacesNoFile) {
  StartCluster(1, 2);
  const std::string model = Submit("model", 1), torn = Submit("model-torn", 1);
  ASSERT_EQ(End(model).state(), SUCCEEDED);
  ASSERT_EQ(End(torn).state(), SUCCEEDED);
  const std::string file = cluster_->output_root() + "/exported.safetensors";
  LocalCluster::CliResult done = cluster_->Cli({"export", model, file});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out, file + ": 1 tensors, 8 bytes\n");
  const std::string bytes = ReadFile(file);
  EXPECT_EQ(bytes, ReadFile(absl::StrCat(cluster_->output_root(), "/", model, "/model.safetensors")));

  EXPECT_THAT(cluster_->Cli({"export", model, file}).err, HasSubstr("exists; --force writes over it"));
  EXPECT_EQ(cluster_->Cli({"export", model, file, "--force"}).exit_code, 0);
  done = cluster_->Cli({"export", torn, file, "--force"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.err, AllOf(HasSubstr("is no whole model"), HasSubstr("the file has 7")));
  EXPECT_EQ(ReadFile(file), bytes) << "what was there stays";

  const std::string pipe = cluster_->output_root() + "/pipe", link = cluster_->output_root() + "/link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(cluster_->Cli({"export", model, pipe, "--force"}).err, HasSubstr("is a pipe, and only regular files"));
  EXPECT_THAT(cluster_->Cli({"get", model, "model.safetensors", "-O", pipe}).err, HasSubstr("is a pipe"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::filesystem::create_symlink("/dev/null", link);
  EXPECT_THAT(cluster_->Cli({"get", model, "model.safetensors", "-O", link}).err, HasSubstr("is a device"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(cluster_->Cli({"export", "model-torn", file + ".other"}).err, HasSubstr("is no whole model"));
  EXPECT_FALSE(std::filesystem::exists(file + ".other"));
  const std::string hangs = Submit("hang", 1);
  EXPECT_THAT(cluster_->Cli({"export", hangs, file + ".other"}).err,
              HasSubstr("which it publishes when it has succeeded"));
  for (const auto& entry : std::filesystem::directory_iterator(cluster_->output_root())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".part")));
  }
}

TEST_F(ControlPlaneTest, WithTooFewSlotsAJobWaitsWithAReason) {
  StartCluster(2, 2);
  std::string first = Submit("hang", 3);
  WaitForState(first, RUNNING);
  std::string second = Submit("succeed", 2);
  EXPECT_THAT(cluster_->Cli({"ps"}).out, HasSubstr("needs 2 slots, 1 of 4 free on 2 workers"));
  EXPECT_EQ(cluster_->Cli({"cancel", first}).exit_code, 0);
  EXPECT_EQ(End(first).state(), CANCELLED);
  EXPECT_EQ(End(second).state(), SUCCEEDED);
}

TEST_F(ControlPlaneTest, AKilledRankFailsItsJobAtOnceAndLeavesNothing) {
  StartCluster(2, 2);
  std::string job = Submit("hang", 4);
  WaitForState(job, RUNNING);
  auto pids = cluster_->RankPids(job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  ASSERT_EQ(pids->size(), 4);
  absl::Status killed = cluster_->KillRank(job, 2, SIGKILL);
  ASSERT_TRUE(killed.ok()) << killed;
  JobSummary end = End(job, 30);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_THAT(end.reason(), AllOf(HasSubstr("rank 2 on worker-"), HasSubstr("was killed by signal 9 (SIGKILL)")));
  EXPECT_TRUE(cluster_->WaitUntilIdle(Within(30)).ok());
  for (pid_t pid : *pids) EXPECT_FALSE(Alive(pid)) << pid;
  ExpectNextJobSucceeds(4);
}

TEST_F(ControlPlaneTest, TheFirstErrorDecides) {
  StartCluster(1, 3);
  EXPECT_EQ(End(Submit("fail-rank-1", 3)).reason(), "rank 1 on worker-0 failed: the disk is full");
  EXPECT_EQ(End(Submit("exit-rank-2", 3)).reason(), "rank 2 on worker-0 exited with code 3 without a result");
  EXPECT_EQ(End(Submit("peer-rank-1", 3)).reason(), "rank 1 on worker-0 was killed by signal 11 (SIGSEGV)");
  ExpectNextJobSucceeds(3);
}

TEST_F(ControlPlaneTest, CancelEndsAlsoRanksThatDoNotListen) {
  StartCluster(1, 2);
  std::string job = Submit("stubborn", 2);
  WaitForState(job, RUNNING);
  auto pids = cluster_->RankPids(job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  EXPECT_EQ(cluster_->Cli({"cancel", job}).exit_code, 0);
  EXPECT_EQ(cluster_->Cli({"submit", "--follow", "/dev/null"}).exit_code, 1);
  EXPECT_TRUE(cluster_->WaitUntilIdle(Within(30)).ok());
  for (pid_t pid : *pids) EXPECT_FALSE(Alive(pid)) << pid;
  ExpectNextJobSucceeds(2);
}

TEST_F(ControlPlaneTest, RanksThatDoNotBecomeReadyAreGivenUp) {
  StartCluster(1, 1, {"--start-timeout-seconds", "1"});
  EXPECT_EQ(End(Submit("silent", 1)).reason(), "rank 0 on worker-0 did not become ready within 1s");
}

TEST_F(ControlPlaneTest, ALostDaemonEndsTheAttemptAndItsRanksDieWithIt) {
  StartCluster(2, 1, ImpatientCoordinator());
  std::string job = Submit("hang", 2, "restart { on: 'error' }");
  WaitForState(job, RUNNING);
  auto pids = cluster_->RankPids(job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  ASSERT_TRUE(cluster_->KillWorker(1).ok());
  JobSummary end = End(job, 30);
  EXPECT_THAT(end.reason(), ::testing::ContainsRegex("worker-1 was lost \\(nothing heard for 2s\\) with rank [01]"));
  absl::Time until = absl::Now() + absl::Seconds(10);
  for (pid_t pid : *pids) {
    while (Alive(pid) && absl::Now() < until) absl::SleepFor(absl::Milliseconds(10));
    EXPECT_FALSE(Alive(pid)) << pid;
  }
  std::string next = Submit("succeed", 2);
  ASSERT_TRUE(cluster_->StartWorker(1).ok());
  EXPECT_EQ(End(next).state(), SUCCEEDED);
  LocalCluster::CliResult events = cluster_->Cli({"events", job});
  EXPECT_EQ(events.exit_code, 0) << events.err;
  EXPECT_THAT(events.out, AllOf(HasSubstr("submitted"), HasSubstr("node_lost"), HasSubstr("failed")));
}

TEST_F(ControlPlaneTest, AJobRunsOnWithoutTheCoordinatorAndTheQueueOutlivesIt) {
  StartCluster(1, 2);
  std::string job = Submit("hang", 2);
  std::string waiting = Submit("succeed", 1);
  WaitForState(job, RUNNING);
  auto pids = cluster_->RankPids(job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(cluster_->KillCoordinator().ok());
    absl::Status restarted = cluster_->RestartCoordinator();
    ASSERT_TRUE(restarted.ok()) << restarted;
    absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(job);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->job().state(), RUNNING);
    EXPECT_EQ(described->job().attempts(), 1);
    EXPECT_EQ(*cluster_->RankPids(job), *pids);
    for (pid_t pid : *pids) EXPECT_TRUE(Alive(pid)) << pid;
  }
  EXPECT_EQ(cluster_->Cli({"cancel", job}).exit_code, 0);
  EXPECT_EQ(End(waiting).state(), SUCCEEDED);
}

TEST_F(ControlPlaneTest, JobsAreHeldReleasedTriedAgainAndKnownByTheirKeys) {
  StartCluster(1, 1);
  std::string blocking = Submit("hang", 1);
  WaitForState(blocking, RUNNING);
  std::string file = cluster_->output_root() + "/job.textproto";
  std::ofstream(file) << FakeJob("succeed", 1);
  LocalCluster::CliResult first = cluster_->Cli({"submit", "--idempotency-key", "k1", file});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(cluster_->Cli({"submit", "--idempotency-key", "k1", file}).out, first.out);
  LocalCluster::CliResult other = cluster_->Cli({"submit", "--idempotency-key", "k1", "--set", "seed=7", file});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("the idempotency key 'k1' is that of job-2, which has another spec"));

  EXPECT_EQ(cluster_->Cli({"hold", "job-2"}).exit_code, 0);
  EXPECT_EQ(cluster_->Cli({"cancel", blocking}).exit_code, 0);
  EXPECT_EQ(End(blocking).state(), CANCELLED);
  EXPECT_THAT(cluster_->Cli({"ps"}).out, HasSubstr("held: `adjoin release job-2` lets it start"));
  EXPECT_EQ(cluster_->Cli({"release", "job-2"}).exit_code, 0);
  EXPECT_EQ(End("job-2").state(), SUCCEEDED);
  LocalCluster::CliResult retried = cluster_->Cli({"retry", blocking});
  EXPECT_EQ(retried.exit_code, 0) << retried.err;
  WaitForState(blocking, RUNNING);
  EXPECT_EQ(cluster_->Cli({"retry", blocking}).exit_code, 1);
}

TEST_F(ControlPlaneTest, ALostRankIsStartedAgainAndItsJobSucceeds) {
  StartCluster(2, 2);
  std::string job = Submit("steps-20x10ms-kill-2-at-5-once", 4, "restart { max_restarts: 1 }");
  JobSummary end = End(job);
  EXPECT_EQ(end.state(), SUCCEEDED) << end.reason();
  EXPECT_EQ(end.attempts(), 2);
  EXPECT_EQ(end.restarts_counted(), 1);
  std::string hopeless =
      Submit("steps-20x10ms-nan-1-at-5", 2, "restart { max_restarts: 5 on: 'error' on: 'rank_lost' }");
  end = End(hopeless);
  EXPECT_EQ(end.state(), FAILED);
  EXPECT_EQ(end.attempts(), 1);
}

TEST_F(ControlPlaneTest, ADrainedWorkersJobGoesOnElsewhere) {
  StartCluster(2, 2);
  std::string job = Submit("steps-100000x10ms", 2);
  WaitForState(job, RUNNING);
  auto described = cluster_->Describe(job);
  ASSERT_TRUE(described.ok()) << described.status();
  const int node = described->rank(0).worker() == "worker-0" ? 0 : 1;
  ASSERT_EQ(described->rank(1).worker(), described->rank(0).worker());
  cluster_->SignalWorker(node, SIGTERM);
  EXPECT_EQ(cluster_->WaitForWorkerEnd(node, Within(20)), absl::OkStatus());
  auto again = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.attempts() == 2 && s.state() == RUNNING; }, Within(30));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->restarts_counted(), 0);
  EXPECT_THAT(cluster_->Cli({"events", job}).out, HasSubstr("drained: stopped after step "));
}

TEST_F(ControlPlaneTest, FollowingShowsHowAJobEnded) {
  StartCluster(1, 2);
  auto submit = [&](const std::string& name) {
    std::string file = absl::StrCat(cluster_->output_root(), "/", name, ".textproto");
    std::ofstream(file) << FakeJob(name, 2);
    return cluster_->Cli({"submit", "--follow", file});
  };
  LocalCluster::CliResult result = submit("succeed");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("accuracy 0.5"));
  result = submit("fail-rank-0");
  EXPECT_EQ(result.exit_code, 100) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rank 0 on worker-0 failed: the disk is full"));
  std::string job = Submit("hang", 2);
  WaitForState(job, RUNNING);
  cluster_->Cli({"cancel", job});
  EXPECT_EQ(cluster_->Cli({"follow", job}).exit_code, 103);
}

TEST_F(ControlPlaneTest, AStreamWithoutMessagesIsEnded) {
  StartCluster(1, 1, {"--worker-timeout-seconds", "0.5", "--suspect-seconds", "0.3", "--heartbeat-seconds", "0.1"});
  auto workers = WorkerLink::NewStub(grpc::CreateChannel(cluster_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context, upload_context;
  for (grpc::ClientContext* each : {&context, &upload_context}) {
    each->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  auto stream = workers->Connect(&context);
  UploadArtifactResponse response;
  auto upload = workers->UploadArtifact(&upload_context, &response);
  CoordinatorMessage message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(upload->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ControlPlaneTest, BadSubmissionsAreRefused) {
  StartCluster(1, 2);
  auto refusal = [&](std::string spec, const std::string& from, const std::string& to) {
    if (size_t at = spec.find(from); at != std::string::npos) spec.replace(at, from.size(), to);
    std::string file = cluster_->output_root() + "/job.textproto";
    std::ofstream(file) << spec;
    LocalCluster::CliResult result = cluster_->Cli({"submit", file});
    EXPECT_EQ(result.exit_code, 1) << to;
    return result.err;
  };
  std::string spec = FakeJob("succeed", 2);
  EXPECT_THAT(refusal(spec, "seed:", "sead:"), HasSubstr("job.textproto:1:"));
  EXPECT_THAT(refusal(spec, "batch: 64", "batch: 0"), HasSubstr("batch"));
  EXPECT_THAT(refusal(spec, "test-images", "no-images"), HasSubstr("mnist/no-images.idx.gz"));
  EXPECT_THAT(refusal(spec, "mnist/test-images", "../mnist/test-images"), HasSubstr(".."));
  std::filesystem::path labels = cluster_->data_root() + "/mnist/test-labels.idx.gz";
  std::filesystem::resize_file(labels, std::filesystem::file_size(labels) - 10);
  EXPECT_THAT(refusal(spec, "", ""), HasSubstr("mnist/test-labels.idx.gz"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, ' '), "", ""), HasSubstr("1048576"));
  EXPECT_THAT(cluster_->Cli({"ps"}).out, HasSubstr("no jobs"));
}

TEST_F(ControlPlaneTest, AnotherProtocolVersionIsRefusedWithBothNamed) {
  StartCluster(1, 1);
  grpc::ClientContext context;
  ListJobsRequest request;
  request.mutable_header()->set_protocol_version(99);
  ListJobsResponse response;
  grpc::Status status = cluster_->stub().ListJobs(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("99"), HasSubstr("speaks version 1")));

  auto workers = WorkerLink::NewStub(grpc::CreateChannel(cluster_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext worker_context;
  auto stream = workers->Connect(&worker_context);
  WorkerMessage hello;
  hello.mutable_hello()->set_name("stranger");
  hello.mutable_hello()->set_slots(1);
  ASSERT_TRUE(stream->Write(hello));
  CoordinatorMessage answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace adjoin
