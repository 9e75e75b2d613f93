#include "primitives/transport/transport_factory.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(TransportFactoryTest, OpensEveryTransportOfTheList) {
  for (const char* name : {"ucx", "in-memory"}) {
    const auto transport = MakeTransport({.name = name,
                                          .rank = 0,
                                          .size = 1,
                                          .shared_memory = true,
                                          .other_nodes = false,
                                          .net_devices = "lo",
                                          .port_range = ""});
    ASSERT_TRUE(transport.ok()) << name << ": " << transport.status();
    const Deadline deadline = Deadline::After(absl::Seconds(30));
    absl::Status status = (*transport)->Connect({(*transport)->Address()}, deadline);
    EXPECT_TRUE(status.ok()) << name << ": " << status;
    status = (*transport)->Close(deadline);
    EXPECT_TRUE(status.ok()) << name << ": " << status;
  }
}

TEST(TransportFactoryTest, NamesTheTransportsThatThereAre) {
  TransportOptions options;
  options.name = "pigeon";
  const absl::Status status = MakeTransport(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "there is no transport \"pigeon\"; there are: ucx, in-memory");
}

TEST(TransportFactoryTest, InMemoryRefusesSeveralProcesses) {
  TransportOptions options;
  options.name = "in-memory";
  options.size = 2;
  EXPECT_EQ(MakeTransport(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adjoin
