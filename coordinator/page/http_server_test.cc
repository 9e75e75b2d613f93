#include "coordinator/page/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

UniqueFd Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience = {30, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

void Say(const UniqueFd& fd, const std::string& text) {
  EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// All until the server closes the connection.
std::string Hear(const UniqueFd& fd) {
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, got);
  return answer;
}

std::string Ask(int port, const std::string& request) {
  const UniqueFd fd = Connect(port);
  Say(fd, request);
  return Hear(fd);
}

constexpr char kClose[] = "Host: localhost\r\nConnection: close\r\n";

std::string GetText(const std::string& path) { return absl::StrCat("GET ", path, " HTTP/1.1\r\n", kClose, "\r\n"); }

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServer::Handler handler, HttpServer::Options options = {}) {
    auto server = HttpServer::Start({"127.0.0.1", 0}, {}, options, std::move(handler));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  static HttpResponse Echo(const HttpRequest& request) {
    HttpResponse response;
    response.body = absl::StrCat(request.method, " ", request.path, " a=", request.Query("a"), " ",
                                 request.Header("x-test"), " ", request.body.size());
    response.headers.emplace_back("X-Made", "here");
    return response;
  }
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, HandsOverTheRequestAndReturnsTheAnswer) {
  Start(&Echo);
  const std::string answer =
      Ask(server_->port(),
          absl::StrCat("POST /b%20c?a=1%262 HTTP/1.1\r\nX-Test: yes\r\nContent-Length: 5\r\n", kClose, "\r\nhello"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("X-Made: here"));
  EXPECT_THAT(answer, HasSubstr("POST /b c a=1&2 yes 5"));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLarge) {
  HttpServer::Options options;
  options.body_bytes = 1000;
  options.header_bytes = 4096;
  Start(&Echo, options);
  const std::string long_body = absl::StrCat("POST / HTTP/1.1\r\nContent-Length: 1001\r\n", kClose, "\r\n");
  EXPECT_THAT(Ask(server_->port(), long_body), StartsWith("HTTP/1.1 413"));
  const std::string chunk = absl::StrCat("400\r\n", std::string(0x400, 'x'), "\r\n0\r\n\r\n");
  EXPECT_EQ(
      Ask(server_->port(), absl::StrCat("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", kClose, "\r\n", chunk)),
      "");
  EXPECT_THAT(Ask(server_->port(), GetText("/" + std::string(5000, 'x'))), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(Ask(server_->port(), GetText("/")), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AnswersAtOnceThatItIsBusy) {
  absl::Notification go_on;
  HttpServer::Options options;
  options.pool = {.threads = 2, .waiting = 3};
  Start(
      [&](const HttpRequest& request) {
        go_on.WaitForNotification();
        return Echo(request);
      },
      options);
  std::vector<UniqueFd> waiting;
  int busy = 0;
  for (int i = 0; i < 12; ++i) {
    waiting.push_back(Connect(server_->port()));
    Say(waiting.back(), GetText("/"));
  }
  // Five of twelve are kept at most; the others get their answer while these wait.
  char first[13] = "";
  for (const UniqueFd& fd : waiting) {
    const timeval moment = {2, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
    if (recv(fd.get(), first, sizeof(first) - 1, 0) > 0 && std::string(first) == "HTTP/1.1 503") ++busy;
  }
  EXPECT_GE(busy, 7);
  go_on.Notify();
  server_.reset();  // before what its threads wait for
}

TEST_F(HttpServerTest, SlowClientsHoldNoThread) {
  HttpServer::Options options;
  options.pool = {.threads = 1, .waiting = 4};
  Start(&Echo, options);
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(Connect(server_->port()));
    Say(slow.back(), "GET / HTTP/1.1\r\nHost: local");
  }
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Ask(server_->port(), GetText("/")), StartsWith("HTTP/1.1 200"));
  Say(slow[7], "host\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(Hear(slow[7]), StartsWith("HTTP/1.1 200"));
}

// More wait in the system's own queue, where they cost the coordinator nothing.
TEST_F(HttpServerTest, AnswersNoMoreConnectionsThanItMayHave) {
  HttpServer::Options options;
  options.connections = 10;
  Start(&Echo, options);
  std::vector<UniqueFd> open;
  for (int i = 0; i < 30; ++i) open.push_back(Connect(server_->port()));
  int answered = 0;
  for (const UniqueFd& fd : open) {
    send(fd.get(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35, MSG_NOSIGNAL);  // and is kept open
  }
  for (const UniqueFd& fd : open) {
    char byte = 0;
    const timeval moment = {0, 200000};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
    if (recv(fd.get(), &byte, 1, 0) == 1) ++answered;
  }
  EXPECT_GE(answered, 1);
  EXPECT_LE(answered, 10);
  open.clear();
  EXPECT_THAT(Ask(server_->port(), GetText("/")), StartsWith("HTTP/1.1 200"));
}

// "HTTP/1.1 200" of an answer whose rest is not read.
std::string AskWithoutReading(const UniqueFd& fd, const std::string& request) {
  Say(fd, request);
  char first[13] = "";
  return recv(fd.get(), first, sizeof(first) - 1, MSG_WAITALL) > 0 ? first : "";
}

constexpr size_t kLarge = size_t{12} << 20;

HttpResponse LargeOrSmall(const HttpRequest& request) {
  HttpResponse response;
  response.body.assign(request.path == "/large" ? kLarge : 10, 'x');
  response.caller = request.Query("who");
  return response;
}

TEST_F(HttpServerTest, AnswersThatAreNotReadAreBoundedForEachCallerAndInAll) {
  HttpServer::Options options;
  options.open.bytes_of_one = kLarge + kLarge / 2;
  options.open.bytes = 2 * kLarge + kLarge / 2;
  Start(&LargeOrSmall, options);
  const int port = server_->port();
  std::vector<UniqueFd> unread;
  for (const char* who : {"alice", "bob"}) {
    unread.push_back(Connect(port));
    EXPECT_EQ(AskWithoutReading(unread.back(), GetText(absl::StrCat("/large?who=", who))), "HTTP/1.1 200");
    if (unread.size() == 1) {
      EXPECT_THAT(Ask(port, GetText("/large?who=alice")), StartsWith("HTTP/1.1 429"));
    }
  }
  EXPECT_THAT(Ask(port, GetText("/large?who=carol")), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Ask(port, GetText("/?who=alice")), StartsWith("HTTP/1.1 200")) << "small ones go on";
  EXPECT_GT(Hear(unread[0]).size(), kLarge);
  EXPECT_THAT(Ask(port, GetText("/large?who=carol")), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, WhoReadsTooSlowlyIsCutOff) {
  HttpServer::Options options;
  options.idle_seconds = 100;
  options.open.bytes = kLarge;
  options.open.answer = absl::Seconds(1);
  options.open.bytes_per_second = kLarge * 2;
  Start(&LargeOrSmall, options);
  const UniqueFd slow = Connect(server_->port());
  EXPECT_EQ(AskWithoutReading(slow, GetText("/large?who=alice")), "HTTP/1.1 200");
  std::string answer;
  const absl::Time begin = absl::Now();
  do {
    answer = Ask(server_->port(), GetText("/large?who=bob"));
  } while (answer.size() < kLarge && absl::Now() - begin < absl::Seconds(30));
  EXPECT_GT(answer.size(), kLarge) << "the bytes of the other one are free again";
  EXPECT_LT(Hear(slow).size(), kLarge);
}

TEST_F(HttpServerTest, ARequestHasToBeWholeInTime) {
  HttpServer::Options options;
  options.open.request = absl::Seconds(1);
  Start(&Echo, options);
  const UniqueFd slow = Connect(server_->port());
  const timeval moment = {0, 200000};
  setsockopt(slow.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
  Say(slow, "GET / HTTP/1.1\r\nX: ");
  const absl::Time begin = absl::Now();
  char byte = 0;
  // A byte five times a second: it is never idle.
  while (absl::Now() - begin < absl::Seconds(12) && recv(slow.get(), &byte, 1, 0) < 0 && errno == EAGAIN) {
    send(slow.get(), "x", 1, MSG_NOSIGNAL);
  }
  EXPECT_GE(absl::Now() - begin, absl::Seconds(1));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(12));
  EXPECT_THAT(Ask(server_->port(), GetText("/")), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AnAddressHasItsShareOfConnections) {
  HttpServer::Options options;
  options.open.per_address = 3;
  Start(&Echo, options);
  std::vector<UniqueFd> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(Connect(server_->port()));
    EXPECT_EQ(AskWithoutReading(open.back(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 200");
  }
  const UniqueFd more = Connect(server_->port());
  char byte = 0;
  errno = 0;
  EXPECT_LE(recv(more.get(), &byte, 1, 0), 0) << "closed at once";
  EXPECT_NE(errno, EAGAIN);
  open.clear();
  std::string answer;
  const absl::Time begin = absl::Now();
  while (answer.empty() && absl::Now() - begin < absl::Seconds(20)) {
    const UniqueFd again = Connect(server_->port());
    send(again.get(), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 54, MSG_NOSIGNAL);
    answer = Hear(again);
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST(AddressKeyTest, OfIpVersion6TheFirstHalfCounts) {
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  const auto key = [&](const char* text) {
    EXPECT_EQ(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return AddressKey(reinterpret_cast<const sockaddr*>(&six));
  };
  EXPECT_EQ(key("2001:db8:1:2::3"), key("2001:db8:1:2:ffff::4"));
  EXPECT_NE(key("2001:db8:1:2::3"), key("2001:db8:1:3::3"));
  EXPECT_EQ(key("::ffff:10.0.0.7"), "10.0.0.7");
}

TEST_F(HttpServerTest, AnExceptionIsAnAnswerAndNotTheEnd) {
  Start([](const HttpRequest& request) -> HttpResponse {
    if (request.path == "/throws") throw std::runtime_error("a secret");
    return Echo(request);
  });
  const std::string answer = Ask(server_->port(), GetText("/throws"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(answer, ::testing::Not(HasSubstr("secret")));
  EXPECT_THAT(Ask(server_->port(), GetText("/")), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, PlainTextIsForLoopbackOnly) {
  const auto server = HttpServer::Start({"0.0.0.0", 0}, {}, {}, &Echo);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("--tls-ca"));
}

TEST_F(HttpServerTest, TellsThatAPortIsInUse) {
  Start(&Echo);
  const auto other = HttpServer::Start({"127.0.0.1", server_->port()}, {}, {}, &Echo);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace adjoin
