#include "coordinator/page/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
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
  // Of twelve, five are kept at most; the others get their answer while these wait.
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
