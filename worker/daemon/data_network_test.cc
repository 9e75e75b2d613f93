#include "worker/daemon/data_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(DataNetwork, PrivateAddresses) {
  for (const char* own : {"127.0.0.1", "127.255.0.9", "10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255",
                          "192.168.7.7", "100.64.0.1", "100.127.255.255", "169.254.1.1", "::1", "fe80::1", "febf::1",
                          "fc00::1", "fdff::1", "::ffff:10.1.2.3"}) {
    EXPECT_TRUE(IsPrivateAddress(own)) << own;
  }
  for (const char* open :
       {"128.0.0.1",   "126.0.0.1",      "9.255.255.255", "11.0.0.0",    "172.15.255.255", "172.32.0.0", "192.167.0.1",
        "192.169.0.1", "100.63.255.255", "100.128.0.0",   "169.253.0.1", "8.8.8.8",        "0.0.0.0",    "::",
        "2001:db8::1", "fec0::1",        "fb00::1",       "fe00::1",     "::ffff:8.8.8.8", "",           "eth0"}) {
    EXPECT_FALSE(IsPrivateAddress(open)) << open;
  }
}

TEST(DataNetwork, TheDeviceIsNamedAndPrivate) {
  const Interfaces interfaces = {
      {"lo", {"127.0.0.1", "::1"}}, {"eth0", {"203.0.113.7", "fe80::1"}}, {"eth1", {"10.0.0.7"}}, {"ib0", {}}};
  auto why = [&](const std::string& devices, bool trusted = false) {
    return std::string(CheckDataNetwork(devices, trusted, interfaces).message());
  };
  EXPECT_EQ(why("lo"), "");
  EXPECT_EQ(why("lo,eth1,ib0"), "");
  EXPECT_THAT(why("eth9"),
              AllOf(HasSubstr("there is no interface 'eth9'; there are eth0 (203.0.113.7, fe80::1), eth1 (10.0.0.7), "),
                    HasSubstr("ib0 (no address), lo (")));
  EXPECT_THAT(why("eth1,"), HasSubstr("there is no interface ''"));
  EXPECT_THAT(why("eth1,eth0"),
              AllOf(HasSubstr("eth0 has the public address 203.0.113.7"), HasSubstr("--trusted-network")));
  EXPECT_EQ(why("eth0", true), "");
  EXPECT_EQ(why("mlx5_0:1", true), "");
}

TEST(DataNetwork, LoopbackIsListedAndPrivate) {
  EXPECT_EQ(CheckDataNetwork("lo", false), absl::OkStatus());
  EXPECT_THAT(ListInterfaces().at("lo"), Contains("127.0.0.1"));
}

}  // namespace
}  // namespace adjoin
