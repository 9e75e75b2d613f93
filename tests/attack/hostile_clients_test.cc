// Clients that send what nobody should, for every method of both services, to a live cluster: it goes on as if they
// were not there. ADJOIN_ATTACK_ROUNDS: how often, with other seeds.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/endpoint.h"
#include "base/testing/test_seed.h"
#include "base/unique_fd.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/protocol.h"
#include "tests/attack/attacked_cluster.h"
#include "tests/attack/hostile_calls.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

int Rounds() {
  const char* rounds = getenv("ADJOIN_ATTACK_ROUNDS");
  return rounds == nullptr ? 1 : atoi(rounds);
}

class HostileClientsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = LocalCluster::Start(2, 2);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
    const std::string spec = ReadFile(Runfile("examples/mnist/lenet5-spatial.textproto"));
    attacked_ = std::make_unique<AttackedCluster>(*cluster_, absl::StrReplaceAll(spec, {{"epochs: 8", "steps: 3"}}),
                                                  "lenet5-spatial");
    ASSERT_EQ(attacked_->Begin(), absl::OkStatus());
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(cluster_->address(), grpc::InsecureChannelCredentials(), arguments);
  }
  // Sends each call, and has the cluster checked afterwards.
  void SendAll(const std::vector<HostileCall>& calls, const std::string& kind) {
    size_t accepted = 0;
    std::shared_ptr<grpc::Channel> channel = Channel();
    for (const HostileCall& call : calls) {
      const grpc::Status status = Send(channel, call, Within(5));
      accepted += status.ok();
      if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
        ASSERT_TRUE(cluster_->ListJobs().ok()) << call.what << ": the coordinator is gone";
      }
    }
    std::cout << kind << ": " << calls.size() << " calls, " << accepted << " accepted" << std::endl;
    EXPECT_EQ(attacked_->Check(), absl::OkStatus()) << kind;
  }
  UniqueFd Connect() const {
    const auto endpoint = ParseEndpoint(cluster_->address());
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(endpoint->port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return UniqueFd();
    return fd;
  }

  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<AttackedCluster> attacked_;
};

TEST_F(HostileClientsTest, AreHarmless) {
  const uint64_t seed = TestSeed();
  const int rounds = Rounds();
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<uint32_t>(seed + round));
    SCOPED_TRACE(absl::StrCat("ADJOIN_TEST_SEED=", seed + round));
    SendAll(OversizedCalls(random, rounds > 1 ? 60 : 12), "oversized");
    SendAll(IllEncodedCalls(random, rounds > 1 ? 60 : 12), "ill-encoded");

    // Numerous: calls and streams at once, each on a connection of its own or many on one.
    const std::vector<HostileCall> calls = IllEncodedCalls(random, 3);
    std::vector<std::thread> clients;
    for (int client = 0; client < 16; ++client) {
      clients.emplace_back([&, client] {
        std::shared_ptr<grpc::Channel> channel = Channel();
        for (int i = 0; i < 100; ++i) {
          if (i % 10 == 0 && client % 2 == 0) channel = Channel();
          Send(channel, calls[(client + i) % calls.size()], Within(5));
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(attacked_->Check(), absl::OkStatus()) << "numerous calls";
    if (HasFatalFailure()) return;

    // Slow: connections that send a byte now and then, and streams whose client never reads.
    std::vector<UniqueFd> slow;
    const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (int i = 0; i < 64; ++i) slow.push_back(Connect());
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<ReadEventsResponse>>> streams;
    const std::unique_ptr<Adjoin::Stub> stub = Adjoin::NewStub(Channel());
    for (int i = 0; i < 50; ++i) {
      ReadEventsRequest request;
      *request.mutable_header() = MakeHeader();
      request.set_job_id("job-1");
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      streams.push_back(stub->ReadEvents(contexts.back().get(), request));
    }
    for (char byte : preface.substr(0, 6)) {
      for (const UniqueFd& fd : slow) {
        if (fd.get() >= 0) (void)!send(fd.get(), &byte, 1, MSG_NOSIGNAL);
      }
      ASSERT_TRUE(cluster_->ListJobs().ok());
    }
    for (auto& context : contexts) context->TryCancel();
    for (auto& stream : streams) stream->Finish();
    slow.clear();
    EXPECT_EQ(attacked_->Check(), absl::OkStatus()) << "slow clients";
  }
  EXPECT_EQ(attacked_->CheckBits(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
