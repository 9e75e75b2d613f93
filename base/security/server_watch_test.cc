// A real server over TLS, and certificates of tools/make-certs.
#include "base/security/server_watch.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/security/certificates_fixture.h"
#include "base/security/raw_call.h"
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

// Answers no call.
class SilentServer {
 public:
  // At any port of 127.0.0.1.
  explicit SilentServer(const TlsFiles& files) {
    grpc::ServerBuilder builder;
    const auto credentials = MakeServerCredentials(endpoint_, files);
    if (!credentials.ok()) {
      ADD_FAILURE() << credentials.status();
      return;
    }
    builder.AddListeningPort(endpoint_.ToString(), *credentials, &endpoint_.port);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    poller_ = std::thread([this] {
      bool ok = false;
      for (void* tag = nullptr; queue_->Next(&tag, &ok);) continue;
    });
  }
  ~SilentServer() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    if (queue_ != nullptr) queue_->Shutdown();
    if (poller_.joinable()) poller_.join();
  }
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Endpoint endpoint_{"127.0.0.1", 0};
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread poller_;
};

class RevokedServerTest : public CertificatesTest {
 protected:
  void SetUp() override {
    MakeCerts("certs", "--server localhost,127.0.0.1 --client worker node-1");
    ASSERT_EQ(Shell("cd certs && cp server.pem first.pem && cp server.key first.key"), 0);
    server_ = std::make_unique<SilentServer>(Files("first"));
    auto made = MakeChannelCredentials(server_->endpoint(), Files("worker-node-1"), "", &check_);
    ASSERT_TRUE(made.ok()) << made.status();
    credentials_ = *made;
    ASSERT_TRUE(check_ != nullptr);
  }
  static std::chrono::system_clock::time_point Soon() {
    return std::chrono::system_clock::now() + std::chrono::seconds(30);
  }
  // With a connection of its own.
  std::shared_ptr<grpc::Channel> Open(const SilentServer& server) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server.endpoint().ToString(), credentials_, arguments);
  }
  // A call that the server does not answer.
  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel) { return RawCall(channel, "/none/None", ""); }

  // Connects anew until `server` is refused, and returns why: its revocation, or another authority, is known then.
  std::string WhyRefusedAnew(const SilentServer& server) {
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    std::string why;
    while (why.empty() && !deadline.Expired()) {
      const std::shared_ptr<grpc::Channel> channel = Open(server);
      grpc_connectivity_state state = channel->GetState(true);
      while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
             channel->WaitForStateChange(state, Soon())) {
        state = channel->GetState(true);
      }
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) why = WhyRefused(Call(channel).error_message());
    }
    return why;
  }

  std::unique_ptr<SilentServer> server_;  // shows the certificate "first"
  ServerCheck check_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
};

TEST_F(RevokedServerTest, IsNoLongerTrustedWhereItWasLetIn) {
  const Deadline::Clock::time_point begun = Deadline::Clock::now();
  const std::shared_ptr<grpc::Channel> channel = Open(*server_);
  ASSERT_TRUE(channel->WaitForConnected(Soon()));
  EXPECT_EQ(check_(begun), absl::OkStatus());
  const Deadline::Clock::time_point later = Deadline::Clock::now();

  MakeCerts("certs", "--revoke server");
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
  EXPECT_THAT(WhyRefused(Call(Open(*server_)).error_message()), HasSubstr("was revoked on"));
}

TEST_F(RevokedServerTest, OneThatAnotherHasReplacedIsNotHeldAgainstIt) {
  const Deadline::Clock::time_point begun = Deadline::Clock::now();
  ASSERT_TRUE(Open(*server_)->WaitForConnected(Soon()));
  // Its certificate is renewed; then the older one alone is revoked.
  MakeCerts("certs", "--server localhost,127.0.0.1");
  ASSERT_EQ(Shell("cd certs && cp server.pem second.pem && cp server.key second.key && cp first.pem server.pem && "
                  "sed -i '$d' issued"),
            0);
  const SilentServer second(Files("second"));
  MakeCerts("certs", "--revoke server");
  EXPECT_THAT(WhyRefusedAnew(*server_), HasSubstr("was revoked on"));
  EXPECT_THAT(std::string(check_(begun).message()), HasSubstr("was revoked on"));
  const std::shared_ptr<grpc::Channel> channel = Open(second);
  ASSERT_TRUE(channel->WaitForConnected(Soon()));
  EXPECT_EQ(check_(begun), absl::OkStatus());
  // One that is refused takes nobody's place.
  EXPECT_THAT(WhyRefusedAnew(*server_), HasSubstr("was revoked on"));
  EXPECT_EQ(check_(begun), absl::OkStatus());
}

// `openssl ca` takes a time from which a certificate counts.
constexpr char kRenewAuthority[] = R"sh(cd certs && cat > config <<'END' && : > db && echo 02 > serial &&
[ca]
default_ca=own
[own]
database=db
new_certs_dir=.
default_md=sha256
serial=serial
policy=any
x509_extensions=any_authority
[any]
commonName=supplied
[any_authority]
basicConstraints=critical,CA:TRUE,pathlen:0
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
END
name="$(openssl x509 -in ca.pem -noout -subject -nameopt RFC2253)" &&
openssl req -new -key ca.key -subj "/${name#subject=}" -out csr &&
openssl ca -batch -notext -selfsign -config config -keyfile ca.key -in csr -startdate 20450101000000Z \
  -enddate 20460101000000Z -out renewed.pem && mv renewed.pem ca.pem)sh";

TEST_F(RevokedServerTest, ARenewedAuthorityThatCountsFromALaterTimeEndsNothingThatIsOpen) {
  const Deadline::Clock::time_point begun = Deadline::Clock::now();
  const std::shared_ptr<grpc::Channel> channel = Open(*server_);
  ASSERT_TRUE(channel->WaitForConnected(Soon()));
  ASSERT_EQ(Shell(kRenewAuthority), 0);
  EXPECT_THAT(WhyRefusedAnew(*server_), HasSubstr("is not valid before 2045"));
  EXPECT_EQ(check_(begun), absl::OkStatus());

  // An authority that is trusted no more ends it.
  MakeCerts("others", "--server localhost");
  ASSERT_EQ(Shell("mv others/ca.pem certs/ca.pem"), 0);
  absl::Status status;
  for (const Deadline deadline = Deadline::After(absl::Seconds(60)); status.ok() && !deadline.Expired();) {
    EXPECT_THAT(WhyRefusedAnew(*server_), HasSubstr("is not trusted"));
    status = check_(begun);
  }
  EXPECT_THAT(std::string(status.message()), HasSubstr("was signed by another authority"));
}

TEST_F(RevokedServerTest, PlainTextHasNoServersToJudge) {
  ASSERT_TRUE(MakeChannelCredentials(server_->endpoint(), {}, "", &check_).ok());
  EXPECT_TRUE(check_ == nullptr);
}

}  // namespace
}  // namespace adjoin
