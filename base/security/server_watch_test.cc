// A real server over TLS, and certificates of tools/make-certs.
#include "base/security/server_watch.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/security/tls.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ServerWatchTest, TellsOfTheFirstCheckThatFailsAndOfNoOther) {
  const Deadline::Clock::time_point begun = Deadline::Clock::now();
  std::atomic<int> checks{0}, told{0};
  absl::Notification over;
  {
    const ServerWatch watch(
        [&](Deadline::Clock::time_point since) {
          EXPECT_EQ(since, begun);
          return ++checks < 3 ? absl::OkStatus() : absl::UnauthenticatedError("revoked");
        },
        begun,
        [&](const absl::Status& why) {
          EXPECT_EQ(why, absl::UnauthenticatedError("revoked"));
          if (++told == 1) over.Notify();
        },
        absl::Milliseconds(1));
    ASSERT_TRUE(over.WaitForNotificationWithTimeout(absl::Seconds(60)));
  }
  EXPECT_EQ(checks, 3);
  EXPECT_EQ(told, 1);
}

TEST(ServerWatchTest, ItsEndWaitsForNothing) {
  const Deadline soon = Deadline::After(absl::Seconds(60));
  const auto never = [](const absl::Status& why) { ADD_FAILURE() << why; };
  {
    const ServerWatch watch([](Deadline::Clock::time_point) { return absl::OkStatus(); }, Deadline::Clock::now(), never,
                            absl::Hours(1));
    const ServerWatch none(nullptr, Deadline::Clock::now(), never);
  }
  EXPECT_FALSE(soon.Expired());
}

class RevokedServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(getenv("TEST_TMPDIR"), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    MakeCerts("certs --server localhost,127.0.0.1 --client worker node-1");
    grpc::ServerBuilder builder;
    int port = 0;
    const auto credentials = MakeServerCredentials(endpoint_, Files("server"));
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    builder.AddListeningPort(endpoint_.ToString(), *credentials, &port);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    endpoint_.port = port;
    poller_ = std::thread([this] {
      bool ok = false;
      for (void* tag = nullptr; queue_->Next(&tag, &ok);) continue;
    });
    auto made = MakeChannelCredentials(endpoint_, Files("worker-node-1"), "", &check_);
    ASSERT_TRUE(made.ok()) << made.status();
    credentials_ = *made;
    ASSERT_TRUE(check_ != nullptr);
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    poller_.join();
  }
  void MakeCerts(const std::string& what) {
    const std::string make = absl::StrCat("cd ", folder_, " && ", getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                                          "/tools/make-certs ", what, " > log 2>&1");
    ASSERT_EQ(system(make.c_str()), 0);
  }
  TlsFiles Files(const std::string& who) const {
    const std::string base = folder_ + "/certs/";
    return {base + "ca.pem", base + who + ".pem", base + who + ".key"};
  }
  static std::chrono::system_clock::time_point Soon() {
    return std::chrono::system_clock::now() + std::chrono::seconds(30);
  }
  // With a connection of its own.
  std::shared_ptr<grpc::Channel> Open() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(endpoint_.ToString(), credentials_, arguments);
  }
  // A call that the server does not answer.
  grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(Soon());
    grpc::CompletionQueue queue;
    grpc::ByteBuffer request, response;
    auto call = stub.PrepareUnaryCall(&context, "/none/None", request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  std::string folder_;
  Endpoint endpoint_{"127.0.0.1", 0};
  ServerCheck check_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread poller_;
};

TEST_F(RevokedServerTest, IsNoLongerTrustedWhereItWasLetIn) {
  const Deadline::Clock::time_point begun = Deadline::Clock::now();
  const std::shared_ptr<grpc::Channel> channel = Open();
  ASSERT_TRUE(channel->WaitForConnected(Soon()));
  EXPECT_EQ(check_(begun), absl::OkStatus());
  const Deadline::Clock::time_point later = Deadline::Clock::now();

  MakeCerts("certs --revoke server");
  absl::Notification over;
  std::string reason;
  {
    const ServerWatch watch(check_, begun, [&](const absl::Status& why) {
      reason = std::string(why.message());
      over.Notify();
    });
    ASSERT_TRUE(over.WaitForNotificationWithTimeout(absl::Seconds(60)));
  }
  EXPECT_THAT(reason, AllOf(HasSubstr("the coordinator is not trusted: certificate"), HasSubstr("was revoked on")));
  EXPECT_EQ(check_(later), absl::OkStatus()) << "none was let in since then";
  EXPECT_FALSE(check_(begun).ok()) << "another call by that channel learns of it, too";
  EXPECT_THAT(WhyRefused(Call(Open()).error_message()), HasSubstr("was revoked on"));
}

TEST_F(RevokedServerTest, PlainTextHasNoServersToJudge) {
  ASSERT_TRUE(MakeChannelCredentials(endpoint_, {}, "", &check_).ok());
  EXPECT_TRUE(check_ == nullptr);
}

}  // namespace
}  // namespace adjoin
