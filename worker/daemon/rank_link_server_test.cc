#include "worker/daemon/rank_link_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "proto/plan.pb.h"
#include "proto/protocol.h"
#include "proto/worker.grpc.pb.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

// Ranks are processes that run and never connect, so that their places are free.
class RankLinkServerTest : public ::testing::Test {
 protected:
  RankLinkServerTest() {
    folder_ = "/tmp/rank-link-XXXXXX";  // short: a socket's path has to be
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::ofstream(folder_ + "/rank") << "#!/bin/sh\nexec sleep 1000\n";
    chmod((folder_ + "/rank").c_str(), 0755);
    NodeAttempts::Settings settings;
    settings.rank_binary = folder_ + "/rank";
    settings.socket = "rank.sock";
    settings.data_root = settings.output_root = folder_;
    settings.stop_grace = absl::Milliseconds(20);
    attempts_ = std::make_unique<NodeAttempts>(settings, [](WorkerMessage) {});
    attempts_->Connected();
    auto server = RankLinkServer::Start(socket(), *attempts_);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }
  ~RankLinkServerTest() override {
    attempts_->KillAll("the test ends");
    attempts_->WaitUntilCleared(Deadline::After(absl::Seconds(20)));
    server_.reset();
    unlink((folder_ + "/rank").c_str());
    rmdir(folder_.c_str());
  }
  std::string socket() const { return folder_ + "/rank.sock"; }

  // Returns the processes of the ranks once all run.
  std::vector<pid_t> StartRanks(uint64_t epoch, int ranks) {
    adjoin::StartRanks start;
    start.set_job_id("job-1");
    start.set_world_size(ranks);
    for (int rank = 0; rank < ranks; ++rank) start.add_rank(rank);
    start.set_plan(Plan().SerializeAsString());
    attempts_->Start(epoch, start);
    std::vector<pid_t> pids;
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    while (pids.size() < static_cast<size_t>(ranks) && !deadline.Expired()) {
      pids.clear();
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        pid_t pid = 0;
        if (absl::SimpleAtoi(entry.path().filename().string(), &pid) && attempts_->IsRank(pid)) pids.push_back(pid);
      }
    }
    return pids;
  }

  // Says the hello of a rank from this process; returns the orders, or nothing and the status.
  grpc::Status SayHello(uint64_t epoch, uint32_t rank, DaemonMessage* orders) {
    auto stub = RankLink::NewStub(grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    auto stream = stub->Connect(&context);
    RankMessage hello;
    *hello.mutable_header() = MakeHeader(epoch);
    hello.mutable_hello()->set_job_id("job-1");
    hello.mutable_hello()->set_rank(rank);
    hello.mutable_hello()->set_pid(getpid());
    stream->Write(hello);
    if (stream->Read(orders)) context.TryCancel();
    return stream->Finish();
  }

  std::string folder_;
  std::unique_ptr<NodeAttempts> attempts_;
  std::unique_ptr<RankLinkServer> server_;
};

TEST_F(RankLinkServerTest, AnotherProcessOfTheSameUserIsNoRank) {
  const std::vector<pid_t> ranks = StartRanks(4, 2);
  ASSERT_EQ(ranks.size(), 2);
  DaemonMessage orders;
  const grpc::Status status = SayHello(4, 0, &orders);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_FALSE(orders.has_start()) << "the plan is the ranks' only";

  // It is cut off before it has said anything.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  char byte;
  EXPECT_EQ(recv(fd, &byte, 1, 0), 0);
  close(fd);
  EXPECT_TRUE(attempts_->IsRank(ranks[0]));
  EXPECT_TRUE(attempts_->IsRank(ranks[1]));
}

TEST_F(RankLinkServerTest, ARankIsNoOtherRank) {
  const std::vector<pid_t> ranks = StartRanks(4, 2);
  ASSERT_EQ(ranks.size(), 2);
  RankHello hello;
  hello.set_job_id("job-1");
  hello.set_rank(0);
  const bool first = attempts_->CheckProcess(4, hello, ranks[0]).ok();
  const absl::Status refused = attempts_->CheckProcess(4, hello, ranks[first ? 1 : 0]);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is not rank 0 of job-1, which is process "));
  EXPECT_TRUE(attempts_->CheckProcess(4, hello, ranks[first ? 0 : 1]).ok());
  EXPECT_FALSE(attempts_->CheckProcess(4, hello, getpid()).ok());
}

}  // namespace
}  // namespace adjoin
