#include "base/endpoint.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "base/unique_fd.h"

namespace adjoin {
namespace {

TEST(EndpointTest, Parses) {
  EXPECT_EQ(ParseEndpoint("127.0.0.1:7411")->port, 7411);
  EXPECT_EQ(ParseEndpoint("[::1]:7411")->host, "::1");
  EXPECT_EQ(ParseEndpoint("[::1]:7411")->ToString(), "[::1]:7411");
  for (const char* wrong : {"", "host", ":1", "host:", "host:x", "host:65536", "host:-1"}) {
    EXPECT_FALSE(ParseEndpoint(wrong).ok()) << wrong;
  }
}

TEST(EndpointTest, TellsWhyNobodyCanListenThere) {
  const auto why = [](const std::string& text) { return std::string(CheckCanListen(*ParseEndpoint(text)).message()); };
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(why("127.0.0.1:" + port), "cannot listen on 127.0.0.1:" + port +
                                          ": another program listens there (`ss -ltnp sport = :" + port +
                                          "` names it): stop it, or choose another port");
  EXPECT_EQ(why("192.0.2.1:0"),  // of RFC 5737's addresses for documentation
            "cannot listen on 192.0.2.1:0: no interface of this machine has this address (`ip address` lists those it "
            "has)");
  EXPECT_EQ(why("127.0.0.1:0"), "");
}

TEST(EndpointTest, PortRanges) {
  for (const char* right : {"", "1-65535", "20000-20100", "7-7"}) EXPECT_TRUE(CheckPortRange(right).ok()) << right;
  for (const char* wrong : {"7", "7-", "-7", "0-7", "8-7", "7-65536", "7-8-9", "a-b"}) {
    EXPECT_FALSE(CheckPortRange(wrong).ok()) << wrong;
  }
}

TEST(EndpointTest, KnowsLoopback) {
  for (const char* local : {"127.0.0.1:1", "127.3.2.1:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(ParseEndpoint(local)->IsLoopback()) << local;
  }
  for (const char* open : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "node-1:1", "127.0.0.1.example.org:1"}) {
    EXPECT_FALSE(ParseEndpoint(open)->IsLoopback()) << open;
  }
}

}  // namespace
}  // namespace adjoin
