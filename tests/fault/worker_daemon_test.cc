// A real worker daemon with real (fake) ranks, against a coordinator of the test's own that comes, goes, hangs and
// forgets.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/health.grpc.pb.h"
#include "proto/plan.pb.h"
#include "proto/protocol.h"
#include "tests/harness/child_process.h"
#include "worker/daemon/proc_stat.h"
#include "worker/testing/fake_coordinator.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using Streams = std::vector<FakeCoordinator::Stream>;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

bool Runs(pid_t pid) {
  std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat.has_value() && !stat->Dead();
}

bool AwaitDead(const std::vector<pid_t>& pids, Deadline deadline) {
  for (pid_t pid : pids) {
    while (Runs(pid)) {
      if (deadline.Expired()) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  return true;
}

class WorkerDaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = "/tmp/worker-daemon-XXXXXX";  // short, and another user's ranks can enter it
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    chmod(folder_.c_str(), 0755);
    std::filesystem::create_directories(folder_ + "/output");
    std::filesystem::copy_file(Runfile("worker/testing/fake-rank"), folder_ + "/fake-rank");
  }
  void TearDown() override {
    if (HasFailure() && daemon_ != nullptr) std::cerr << daemon_->Errors();
    daemon_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void StartDaemon(std::vector<std::string> flags = {}) {
    std::vector<std::string> command = {Runfile("worker/adjoin-worker"),
                                        "--coordinator",
                                        coordinator_.address(),
                                        "--name",
                                        "worker-0",
                                        "--data-root",
                                        folder_,
                                        "--output-root",
                                        folder_ + "/output",
                                        "--state-dir",
                                        folder_ + "/state",
                                        "--rank-binary",
                                        folder_ + "/fake-rank"};
    command.insert(command.end(), flags.begin(), flags.end());
    auto started = ChildProgram::Start(command, {}, folder_ + "/daemon");
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
  }
  void SetManner(const std::function<void(FakeCoordinator::Manner&)>& change) {
    change(manner_);
    coordinator_.SetManner(manner_);
  }
  void AwaitStream(size_t count) {
    ASSERT_TRUE(coordinator_.Await([&](const Streams& streams) { return streams.size() >= count; }));
  }

  // Starts the ranks of job-1, waits until all are ready and connects them. Their processes.
  std::vector<pid_t> StartJob(uint64_t epoch, const std::string& name, int ranks) {
    CoordinatorMessage message;
    *message.mutable_header() = MakeHeader(epoch);
    StartRanks& start = *message.mutable_start_ranks();
    start.set_job_id("job-1");
    start.set_world_size(ranks);
    for (int rank = 0; rank < ranks; ++rank) start.add_rank(rank);
    Plan plan;
    plan.mutable_spec()->set_name(name);
    plan.mutable_spec()->set_output_dir("out/" + name);
    start.set_plan(plan.SerializeAsString());
    EXPECT_TRUE(coordinator_.Send(message));
    std::map<uint32_t, pid_t> ready;
    EXPECT_TRUE(coordinator_.Await([&](const Streams& streams) {
      for (const WorkerMessage& said : streams.back().messages) {
        if (said.has_rank_ready()) ready[said.rank_ready().rank()] = static_cast<pid_t>(said.rank_ready().pid());
      }
      return static_cast<int>(ready.size()) == ranks;
    }));
    message.mutable_connect_ranks()->set_job_id("job-1");
    for (int rank = 0; rank < ranks; ++rank) message.mutable_connect_ranks()->add_transport_address("nowhere");
    EXPECT_TRUE(coordinator_.Send(message));
    std::vector<pid_t> pids;
    for (const auto& [rank, pid] : ready) pids.push_back(pid);
    return pids;
  }
  // How ranks ended, as messages or the last hello say, once `count` have.
  std::map<uint32_t, RankEnded> Ends(size_t count) {
    std::map<uint32_t, RankEnded> ends;
    EXPECT_TRUE(coordinator_.Await([&](const Streams& streams) {
      for (const FakeCoordinator::Stream& stream : streams) {
        for (const AttemptReport& attempt : stream.hello.attempt()) {
          for (const RankReport& rank : attempt.rank()) {
            if (rank.has_ended()) ends[rank.rank()] = rank.ended();
          }
        }
        for (const WorkerMessage& said : stream.messages) {
          if (said.has_rank_ended()) ends[said.rank_ended().rank()] = said.rank_ended();
        }
      }
      return ends.size() >= count;
    }));
    return ends;
  }
  bool AwaitStep(uint64_t step) {
    return coordinator_.Await([&](const Streams& streams) {
      if (streams.empty() || streams.back().heartbeats.empty()) return false;
      const Heartbeat& beat = streams.back().heartbeats.back();
      bool all = beat.attempt_size() > 0 && beat.attempt(0).rank_size() > 0;
      for (const AttemptPulse& attempt : beat.attempt()) {
        for (const RankPulse& rank : attempt.rank()) all = all && rank.step() >= step;
      }
      return all;
    });
  }

  std::string folder_;
  FakeCoordinator::Manner manner_;
  FakeCoordinator coordinator_;
  std::unique_ptr<ChildProgram> daemon_;
};

TEST_F(WorkerDaemonTest, HealthChecksAreAnsweredBesideTheStreamAndEndWithTheDaemon) {
  StartDaemon({"--listen", "127.0.0.1:0"});
  AwaitStream(1);
  std::string address;
  const Deadline said = Within(20);
  while (address.empty() && !said.Expired()) {
    static const std::string kSays = "health checks on ";
    const std::string log = daemon_->Errors();
    const size_t at = log.find(kSays);
    const size_t end = at == std::string::npos ? at : log.find('\n', at);
    if (end != std::string::npos) address = log.substr(at + kSays.size(), end - at - kSays.size());
  }
  ASSERT_FALSE(address.empty()) << daemon_->Errors();
  auto stub = grpc::health::v1::Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  auto check = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, {}, &response);
    return status.ok() ? grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())
                       : status.error_message();
  };
  EXPECT_EQ(check(), "SERVING");
  // A watcher that stays keeps no daemon from ending.
  grpc::ClientContext watch;
  watch.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  grpc::health::v1::HealthCheckResponse first;
  auto watching = stub->Watch(&watch, {});
  EXPECT_TRUE(watching->Read(&first));
  EXPECT_EQ(check(), "SERVING");
  daemon_->Signal(SIGTERM);
  absl::StatusOr<int> code = daemon_->Wait(Within(20));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << daemon_->Errors();
  EXPECT_FALSE(watching->Read(&first));
  watching->Finish();
}

TEST_F(WorkerDaemonTest, AReadyFileIsThereWhileTheCoordinatorIs) {
  const std::string file = folder_ + "/ready";
  auto await = [&](bool there) {
    const Deadline deadline = Within(20);
    while (std::filesystem::exists(file) != there && !deadline.Expired()) absl::SleepFor(absl::Milliseconds(5));
    return std::filesystem::exists(file) == there;
  };
  StartDaemon({"--ready-file", file});
  AwaitStream(1);
  EXPECT_TRUE(await(true));
  SetManner([](auto& manner) { manner.refusal = grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"); });
  coordinator_.DropStream();
  EXPECT_TRUE(await(false));
  SetManner([](auto& manner) { manner.refusal = grpc::Status::OK; });
  EXPECT_TRUE(await(true));
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(Within(20)).value_or(-1), 0);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(WorkerDaemonTest, ARankThatGetsTheDaemonsSigtermIsDrainedAllTheSame) {
  StartDaemon();
  AwaitStream(1);
  const std::vector<pid_t> pids = StartJob(4, "steps-100000x5ms", 2);
  ASSERT_TRUE(AwaitStep(5));
  for (const pid_t pid : pids) kill(pid, SIGTERM);
  ASSERT_TRUE(AwaitStep(30)) << "they go on";
  daemon_->Signal(SIGTERM);
  for (const auto& [rank, ended] : Ends(2)) EXPECT_EQ(ended.end(), RANK_DRAINED) << rank;
  EXPECT_EQ(daemon_->Wait(Within(30)).value_or(-1), 0);
}

TEST_F(WorkerDaemonTest, RanksGoOnWhileTheCoordinatorIsAway) {
  StartDaemon();
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "steps-100000x5ms", 2);
  ASSERT_TRUE(AwaitStep(10));
  SetManner([](auto& manner) { manner.refusal = grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"); });
  coordinator_.DropStream();
  AwaitStream(4);
  SetManner([](auto& manner) { manner.refusal = grpc::Status::OK; });
  ASSERT_TRUE(coordinator_.Await([](const Streams& streams) { return !streams.back().heartbeats.empty(); }));
  const WorkerHello hello = coordinator_.Streams().back().hello;
  ASSERT_EQ(hello.attempt_size(), 1);
  EXPECT_EQ(hello.attempt(0).epoch(), 4);
  ASSERT_EQ(hello.attempt(0).rank_size(), 2);
  for (int rank = 0; rank < 2; ++rank) {
    const RankReport& report = hello.attempt(0).rank(rank);
    EXPECT_EQ(report.pid(), pids[rank]);
    EXPECT_TRUE(report.connected());
    EXPECT_EQ(report.transport_address(), "nowhere");
    EXPECT_TRUE(Runs(pids[rank]));
  }
  ASSERT_TRUE(AwaitStep(hello.attempt(0).rank(0).progress().step() + 10));
  CoordinatorMessage stop;
  *stop.mutable_header() = MakeHeader(4);
  stop.mutable_stop_attempt()->set_job_id("job-1");
  ASSERT_TRUE(coordinator_.Send(stop));
  for (const auto& [rank, ended] : Ends(2)) EXPECT_EQ(ended.end(), RANK_PEER_FAILED) << rank;
  EXPECT_TRUE(AwaitDead(pids, Within(30)));
}

TEST_F(WorkerDaemonTest, WhenTheLeaseRunsOutRanksAreKilled) {
  SetManner([](auto& manner) { manner.lease_seconds = 3; });
  StartDaemon();
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "steps-100000x5ms", 2);
  ASSERT_TRUE(AwaitStep(700)) << "longer than the lease";
  SetManner([](auto& manner) { manner.acknowledges = false; });
  for (const auto& [rank, ended] : Ends(2)) {
    EXPECT_EQ(ended.end(), RANK_LOST);
    EXPECT_THAT(ended.error(), HasSubstr(": nothing heard from the coordinator for 3 s (its lease ran out)")) << rank;
  }
  EXPECT_TRUE(AwaitDead(pids, Within(30)));
}

TEST_F(WorkerDaemonTest, RanksOfAStoppedDaemonEndThemselves) {
  SetManner([](auto& manner) { manner.lease_seconds = 1; });
  StartDaemon();
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "steps-100000x5ms", 2);
  ASSERT_TRUE(AwaitStep(20));
  daemon_->Signal(SIGSTOP);
  EXPECT_TRUE(AwaitDead(pids, Within(20)));
  daemon_->Signal(SIGCONT);
  for (const auto& [rank, ended] : Ends(2)) {
    EXPECT_EQ(ended.end(), RANK_LOST);
    EXPECT_THAT(ended.error(), HasSubstr("its lease ran out")) << rank;
  }
}

TEST_F(WorkerDaemonTest, AStoppedRankIsNamed) {
  StartDaemon();
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "steps-100000x5ms", 1);
  ASSERT_TRUE(AwaitStep(5));
  kill(pids[0], SIGSTOP);
  EXPECT_TRUE(coordinator_.Await([](const Streams& streams) {
    const Heartbeat& beat = streams.back().heartbeats.back();
    return beat.attempt_size() > 0 && beat.attempt(0).rank_size() > 0 && beat.attempt(0).rank(0).process() == "stopped";
  }));
}

TEST_F(WorkerDaemonTest, WithoutTheCoordinatorAKilledRankTakesItsPeersWithIt) {
  StartDaemon();
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "steps-100000x5ms", 2);
  ASSERT_TRUE(AwaitStep(5));
  SetManner([](auto& manner) { manner.refusal = grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"); });
  coordinator_.DropStream();
  AwaitStream(2);
  kill(pids[0], SIGKILL);
  EXPECT_TRUE(AwaitDead(pids, Within(30)));
  SetManner([](auto& manner) { manner.refusal = grpc::Status::OK; });
  std::map<uint32_t, RankEnded> ends = Ends(2);
  EXPECT_EQ(ends[0].end(), RANK_LOST);
  EXPECT_EQ(ends[0].error(), "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(ends[1].end(), RANK_PEER_FAILED);
}

TEST_F(WorkerDaemonTest, SigtermDrains) {
  StartDaemon();
  AwaitStream(1);
  StartJob(4, "steps-100000x5ms", 2);
  ASSERT_TRUE(AwaitStep(5));
  daemon_->Signal(SIGTERM);
  std::map<uint32_t, RankEnded> ends = Ends(2);
  EXPECT_EQ(ends[0].end(), RANK_DRAINED);
  EXPECT_EQ(ends[1].end(), RANK_DRAINED);
  EXPECT_GT(ends[0].drained_step(), 5);
  EXPECT_EQ(daemon_->Wait(Within(30)).value_or(-1), 0);
  EXPECT_TRUE(coordinator_.Await([](const Streams& streams) {
    for (const Heartbeat& beat : streams[0].heartbeats) {
      if (beat.draining()) return true;
    }
    return false;
  }));
}

TEST_F(WorkerDaemonTest, ADrainThatLastsTooLongIsCutShort) {
  StartDaemon({"--drain-seconds", "0.3"});
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "stubborn", 1);
  daemon_->Signal(SIGTERM);
  std::map<uint32_t, RankEnded> ends = Ends(1);
  EXPECT_EQ(ends[0].end(), RANK_LOST);
  EXPECT_EQ(ends[0].error(), "was killed: the worker stops");
  EXPECT_EQ(daemon_->Wait(Within(30)).value_or(-1), 0);
  EXPECT_FALSE(Runs(pids[0]));

  StartDaemon({"--drain-seconds", "3600"});
  AwaitStream(2);
  pids = StartJob(5, "stubborn", 1);
  daemon_->Signal(SIGTERM);
  ASSERT_TRUE(coordinator_.Await([](const Streams& streams) {
    return streams.size() == 2 && !streams[1].heartbeats.empty() && streams[1].heartbeats.back().draining();
  }));
  const size_t beats = coordinator_.Streams()[1].heartbeats.size();
  daemon_->Signal(SIGTERM);
  EXPECT_TRUE(coordinator_.Await([beats](const Streams& streams) { return streams[1].heartbeats.size() > beats + 3; }))
      << "a second SIGTERM changes nothing";
  EXPECT_TRUE(Runs(pids[0]));
  daemon_->Signal(SIGINT);
  EXPECT_EQ(daemon_->Wait(Within(30)).value_or(-1), 0);
  EXPECT_FALSE(Runs(pids[0]));
}

TEST_F(WorkerDaemonTest, ADrainWithoutACoordinatorEnds) {
  StartDaemon({"--drain-seconds", "0.5"});
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "hang", 1);
  SetManner([](auto& manner) { manner.refusal = grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"); });
  coordinator_.DropStream();
  AwaitStream(2);
  daemon_->Signal(SIGTERM);
  EXPECT_EQ(daemon_->Wait(Within(30)).value_or(-1), 0);
  EXPECT_FALSE(Runs(pids[0]));
}

TEST_F(WorkerDaemonTest, ANewDaemonsHelloComesAfterTheOldOnesRanks) {
  StartDaemon();
  AwaitStream(1);
  std::vector<pid_t> pids = StartJob(4, "stubborn", 2);
  kill(pids[1], SIGSTOP);
  kill(daemon_->pid(), SIGKILL);
  ASSERT_EQ(daemon_->Wait(Within(30)).value_or(-1), 128 + SIGKILL);
  StartDaemon();
  AwaitStream(2);
  for (pid_t pid : pids) EXPECT_FALSE(Runs(pid)) << pid;
  const Streams streams = coordinator_.Streams();
  EXPECT_EQ(streams[1].hello.attempt_size(), 0);
  EXPECT_NE(streams[0].hello.incarnation(), streams[1].hello.incarnation());
  EXPECT_EQ(streams[0].hello.node_id(), streams[1].hello.node_id());
  EXPECT_FALSE(streams[0].hello.node_id().empty());
}

TEST_F(WorkerDaemonTest, RanksRunAsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start processes of other users";
  const passwd* nobody = getpwnam("nobody");
  if (nobody == nullptr) GTEST_SKIP() << "this machine has no user 'nobody'";
  StartDaemon({"--rank-user", "nobody"});
  AwaitStream(1);
  std::filesystem::create_directories(folder_ + "/output/out");
  // The root of all results is not the ranks' (runs.log of the fake ranks apart), the job's folder is.
  chmod((folder_ + "/output").c_str(), 0777);
  chmod((folder_ + "/output/out").c_str(), 0755);
  std::vector<pid_t> pids = StartJob(4, "steps-20x5ms", 1);
  ASSERT_EQ(pids.size(), 1);
  struct stat info = {};
  ASSERT_EQ(stat(absl::StrCat("/proc/", pids[0]).c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, nobody->pw_uid);
  EXPECT_EQ(Ends(1)[0].end(), RANK_SUCCEEDED);
  ASSERT_EQ(stat((folder_ + "/output/out/steps-20x5ms/result.bin").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, nobody->pw_uid);
  ASSERT_EQ(stat((folder_ + "/output/out").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0) << "it was there before";
  pids = StartJob(5, "steps-100000x5ms", 2);
  ASSERT_EQ(pids.size(), 2);
  kill(daemon_->pid(), SIGKILL);
  EXPECT_TRUE(AwaitDead(pids, Within(30))) << "they die with their daemon, whose user they are not";
}

TEST_F(WorkerDaemonTest, ReportsItsLabels) {
  StartDaemon({"--label", "zone=a", "--label", "disk=nvme=2"});
  AwaitStream(1);
  const WorkerHello hello = coordinator_.Streams()[0].hello;
  EXPECT_EQ(hello.label_size(), 2);
  EXPECT_EQ(hello.label().at("zone"), "a");
  EXPECT_EQ(hello.label().at("disk"), "nvme=2");
}

TEST_F(WorkerDaemonTest, WrongFlagsAreNamed) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--rank-user", "no-such-user"}, {"--label", "zone"}, {"--label", "a=1", "--label", "a=2"}};
  for (const std::vector<std::string>& flags : wrong) {
    StartDaemon(flags);
    EXPECT_EQ(daemon_->Wait(Within(30)).value_or(-1), 1) << flags[1];
    EXPECT_THAT(daemon_->Errors(), HasSubstr(absl::StrCat("error: ", flags[0]))) << flags[1];
  }
}

}  // namespace
}  // namespace adjoin
