#include "coordinator/services/self_check.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/security/server_limits.h"
#include "base/security/tls.h"
#include "proto/coordinator.grpc.pb.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

SelfCheck::Options Fast(double seconds) { return {.period = absl::Seconds(seconds), .failures = 3, .serves = nullptr}; }

// A socket that listens. Its owner accepts when the test lets it.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port = ntohs(address.sin_port);
  }
  ~Listener() { Close(); }
  void AcceptOne() {
    const int connection = accept(fd_, nullptr, nullptr);
    EXPECT_GE(connection, 0);
    close(connection);
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int port = 0;

 private:
  int fd_;
};

// Collects the reason that the check reports.
class Verdict {
 public:
  std::function<void(const std::string&)> Take() {
    return [this](const std::string& why) {
      absl::MutexLock lock(&mutex_);
      why_ = why;
      changed_.NotifyAll();
    };
  }
  std::string Await(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, Deadline::After(limit), [this] { return !why_.empty(); });
    return why_;
  }

 private:
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::string why_;
};

TEST(SelfCheckTest, ReportsAServerThatDoesNotAccept) {
  Listener listener;
  Verdict verdict;
  auto check = SelfCheck::Start({"127.0.0.1", listener.port}, Fast(1), verdict.Take());
  ASSERT_TRUE(check.ok()) << check.status();
  listener.AcceptOne();
  EXPECT_THAT(verdict.Await(absl::Seconds(20)), HasSubstr("3 times in a row: a connection is not accepted within 1s"));
}

TEST(SelfCheckTest, ReportsAServerThatHasGone) {
  Listener listener;
  Verdict verdict;
  auto check = SelfCheck::Start({"127.0.0.1", listener.port}, Fast(1), verdict.Take());
  ASSERT_TRUE(check.ok()) << check.status();
  listener.AcceptOne();
  listener.Close();
  EXPECT_THAT(verdict.Await(absl::Seconds(20)), HasSubstr("nothing listens there any more"));
}

TEST(SelfCheckTest, ReportsNothingWhereNoAddressEverAnswered) {
  Listener listener;
  Verdict verdict;
  auto check = SelfCheck::Start({"127.0.0.1", listener.port}, Fast(0.01), verdict.Take());
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(verdict.Await(absl::Seconds(0.3)), "");
}

TEST(SelfCheckTest, ReportsAServerThatAcceptsAndServesNobody) {
  Listener listener;
  Verdict verdict;
  SelfCheck::Options options = Fast(0.01);
  int calls = 0;
  options.serves = [&calls](absl::Duration) {
    ++calls;
    if (calls == 3) return absl::OkStatus();
    if (calls == 5) return absl::UnavailableError("counts against nobody");
    return absl::ResourceExhaustedError("no thread is left");
  };
  auto check = SelfCheck::Start({"127.0.0.1", listener.port}, options, verdict.Take());
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(verdict.Await(absl::Seconds(20)), HasSubstr("serves nobody, 3 times in a row: no thread is left"));
  EXPECT_EQ(calls, 8);
}

// A real server; `tls` is empty for plain text.
void ExpectAnswers(const std::string& host, const TlsFiles& tls) {
  Adjoin::Service service;
  auto credentials = MakeServerCredentials({"127.0.0.1", 0}, tls);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", *credentials, &port);
  builder.RegisterService(&service);
  SetServerLimits(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  Verdict verdict;
  {
    auto check = SelfCheck::Start({host, port}, Fast(0.3), verdict.Take());
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(verdict.Await(absl::Seconds(3)), "");
    server->Shutdown(std::chrono::system_clock::now());
    EXPECT_NE(verdict.Await(absl::Seconds(20)), "") << "it had answered before";
  }
}

TEST(SelfCheckTest, AServerAnswersInPlainText) { ExpectAnswers("127.0.0.1", {}); }

TEST(SelfCheckTest, TheWildcardAddressIsCheckedOnThisMachine) { ExpectAnswers("0.0.0.0", {}); }

TEST(SelfCheckTest, AServerAnswersWithTls) {
  const std::string folder = ::testing::TempDir() + "/self-check-certs";
  const std::string tool = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs");
  ASSERT_EQ(system(absl::StrCat(tool, " ", folder, " --server localhost,127.0.0.1 >/dev/null").c_str()), 0);
  ExpectAnswers("127.0.0.1", {folder + "/ca.pem", folder + "/server.pem", folder + "/server.key"});
}

}  // namespace
}  // namespace adjoin
