#include "base/endpoint.h"

#include <gtest/gtest.h>

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
