// Runs the conformance tests on the example's transport.
#include "examples/transport/queue_transport.h"

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/conformance_suite.h"
#include "primitives/transport/transport.h"

namespace adjoin {
namespace {

absl::StatusOr<std::vector<std::unique_ptr<Transport>>> OpenRanks(int n) {
  std::vector<std::unique_ptr<Transport>> transports;
  TransportOptions options;
  options.size = n;
  for (options.rank = 0; options.rank < n; ++options.rank) {
    ADJOIN_ASSIGN_OR_RETURN(auto transport, OpenQueueTransport(options));
    transports.push_back(std::move(transport));
  }
  return transports;
}

INSTANTIATE_TEST_SUITE_P(Queue, ConformanceTest,
                         testing::Values(ConformanceCase{
                             .name = "Queue", .open = OpenRanks, .lane = "queue", .seed = 1}),
                         ConformanceCaseName);

TEST(QueueTransportTest, EndsWaitsOnARankThatIsGone) {
  auto ranks = *OpenRanks(2);
  const std::vector<std::string> addresses = {ranks[0]->Address(), ranks[1]->Address()};
  std::thread other([&] { EXPECT_TRUE(ranks[1]->Connect(addresses, Soon()).ok()); });
  ASSERT_TRUE(ranks[0]->Connect(addresses, Soon()).ok());
  other.join();
  int64_t sent = 11, got = 0, never = 0;
  ASSERT_TRUE(SendNow(*ranks[1], 0, MakeTag(1, 0), BufferOf(sent)).ok());
  const Handle waiting = *ranks[0]->StartRecv(1, MakeTag(1, 1), BufferOf(never));
  ranks[1].reset();
  EXPECT_EQ(ranks[0]->Wait(waiting, Soon()).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(ranks[0]->Disturbed());
  EXPECT_TRUE(ReceiveNow(*ranks[0], 1, MakeTag(1, 0), BufferOf(got)).ok()) << "a message that had come before";
  EXPECT_EQ(got, 11);
  EXPECT_EQ(ranks[0]->StartSend(1, MakeTag(0, 0), BufferOf(sent)).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace adjoin
