// What a real server does with connections of strangers, who have no certificate.
#include "base/security/start_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/security/certificates_fixture.h"
#include "base/security/server_limits.h"
#include "base/security/tls.h"
#include "base/unique_fd.h"

namespace adjoin {
namespace {

class StartServerTest : public CertificatesTest {
 protected:
  ~StartServerTest() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    if (queue_ != nullptr) queue_->Shutdown();
    if (poller_.joinable()) poller_.join();
  }
  // At any port of 127.0.0.1; it answers no call.
  void Start(const TlsFiles& files, const ConnectionLimits& limits) {
    const auto credentials = MakeServerCredentials(endpoint_, files);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    absl::StatusOr<std::unique_ptr<grpc::Server>> server = StartServer(builder, *credentials, &endpoint_, limits);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    poller_ = std::thread([this] {
      bool ok = false;
      for (void* tag = nullptr; queue_->Next(&tag, &ok);) continue;
    });
  }
  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(endpoint_.port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  // Waits until the server has closed the connection, or until the time is over. True where it has.
  static bool IsClosed(const UniqueFd& fd, absl::Duration within) {
    const timeval time = absl::ToTimeval(within);
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    char bytes[1024];
    ssize_t got = 0;
    do {
      got = recv(fd.get(), bytes, sizeof(bytes), 0);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
  }

  Endpoint endpoint_{"127.0.0.1", 0};
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread poller_;
};

TEST_F(StartServerTest, AConnectionThatSaysNothingIsClosed) {
  Start(TlsFiles(), {.handshake = absl::Seconds(1)});
  EXPECT_TRUE(IsClosed(Connect(), absl::Seconds(20)));
}

TEST_F(StartServerTest, AHandshakeHasToBeDoneInTime) {
  MakeCerts("certs", "--server localhost,127.0.0.1");
  Start(Files("server"), {.handshake = absl::Seconds(1)});
  const absl::Time begin = absl::Now();
  const UniqueFd silent = Connect(), slow = Connect();
  constexpr char kHead[] = {0x16, 0x03, 0x01, 0x02, 0x00};  // 512 bytes follow
  send(slow.get(), kHead, sizeof(kHead), MSG_NOSIGNAL);
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  bool is_closed = false;
  // A byte ten times a second: it is never idle.
  while (!is_closed && !deadline.Expired()) {
    send(slow.get(), "\x01", 1, MSG_NOSIGNAL);
    is_closed = IsClosed(slow, absl::Milliseconds(100));
  }
  EXPECT_TRUE(is_closed);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(500)) << "it was closed for what it said";
  EXPECT_TRUE(IsClosed(silent, absl::Seconds(20)));
}

TEST_F(StartServerTest, AStrangerWithoutACallIsSentAway) {
  MakeCerts("certs", "--server localhost,127.0.0.1");
  Start(Files("server"), {.idle = absl::Seconds(1)});
  std::ifstream authority(Files("server").ca);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = std::string(std::istreambuf_iterator<char>(authority), {});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(endpoint_.ToString(), grpc::SslCredentials(options), arguments);
  const auto soon = [] { return std::chrono::system_clock::now() + std::chrono::seconds(30); };
  ASSERT_TRUE(channel->WaitForConnected(soon()));
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, soon()));
}

}  // namespace
}  // namespace adjoin
