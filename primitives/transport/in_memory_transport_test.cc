#include "primitives/transport/in_memory_transport.h"

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "primitives/device/fake_device.h"

namespace adjoin {
namespace {

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

Tag MakeTag(int source, int64_t op) { return *Tag::Make({0, op, 0, Direction::kForward, source, 0}); }

Buffer BufferOf(int64_t& value) {
  Buffer buffer;
  buffer.data = &value;
  buffer.bytes = sizeof(value);
  return buffer;
}

Buffer OnDevice(std::size_t bytes) {
  const DeviceAllocation memory = *FakeDevice::Get(0).Allocate(bytes);
  Buffer buffer;
  buffer.data = memory.data;
  buffer.bytes = memory.bytes;
  buffer.kind = MemoryKind::kFakeDevice;
  buffer.keepalive = memory.keepalive;
  return buffer;
}

struct Pair {
  std::shared_ptr<InMemoryFabric> fabric;
  std::unique_ptr<Transport> zero, one;
};

Pair MakePair(uint64_t seed, bool delay) {
  Pair pair;
  pair.fabric = *InMemoryFabric::Create(
      2, {.seed = seed, .delay = delay, .view_kind = MemoryKind::kFakeDevice, .view = FakeDevice::ViewOf});
  pair.zero = *pair.fabric->CreateTransport(0);
  pair.one = *pair.fabric->CreateTransport(1);
  return pair;
}

// The order in which ten messages of different tags become visible to a receiver that only polls.
std::vector<int> Arrivals(uint64_t seed, bool delay) {
  Pair pair = MakePair(seed, delay);
  std::vector<int64_t> out(10), in(10);
  std::vector<Handle> sends(10), receives(10);
  for (int i = 0; i < 10; ++i) receives[i] = *pair.one->StartRecv(0, MakeTag(0, i), BufferOf(in[i]));
  for (int i = 0; i < 10; ++i) sends[i] = *pair.zero->StartSend(1, MakeTag(0, i), BufferOf(out[i]));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pair.zero->Wait(sends[i], Soon()).ok());
  std::vector<int> order;
  std::vector<bool> seen(10, false);
  while (order.size() < 10) {
    pair.one->Test(receives[0]);
    for (int i = 0; i < 10; ++i) {
      // Test polls as well, so the order also depends on this loop; but on nothing else.
      if (!seen[i] && pair.one->Test(receives[i])) {
        seen[i] = true;
        order.push_back(i);
      }
    }
  }
  return order;
}

TEST(InMemoryTransportTest, DelaysComeFromTheSeedAlone) {
  std::vector<int> sorted(10);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_EQ(Arrivals(1, false), sorted);
  int reordered = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(Arrivals(seed, true), Arrivals(seed, true)) << "seed " << seed;
    if (Arrivals(seed, true) != sorted) ++reordered;
  }
  EXPECT_GE(reordered, 15);
}

TEST(InMemoryTransportTest, ReadsTheBufferOfADelayedSendLate) {
  // A program that changes a buffer before its Wait returns sends the changed bytes.
  int late = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Pair pair = MakePair(seed, true);
    int64_t out = 1, in = 0;
    const Handle send = *pair.zero->StartSend(1, MakeTag(0, 0), BufferOf(out));
    out = 2;
    ASSERT_TRUE(pair.zero->Wait(send, Soon()).ok());
    const Handle receive = *pair.one->StartRecv(0, MakeTag(0, 0), BufferOf(in));
    ASSERT_TRUE(pair.one->Wait(receive, Soon()).ok());
    if (in == 2) ++late;
  }
  EXPECT_GE(late, 10);
}

TEST(InMemoryTransportTest, EndsWaitsOnADeadRank) {
  for (bool delay : {false, true}) {
    Pair pair = MakePair(3, delay);
    int64_t sent = 11, got = 0, never = 0;
    const Handle send = *pair.one->StartSend(0, MakeTag(1, 0), BufferOf(sent));
    ASSERT_TRUE(pair.one->Wait(send, Soon()).ok());
    const Handle waiting = *pair.zero->StartRecv(1, MakeTag(1, 1), BufferOf(never));
    absl::Status status;
    std::thread waiter([&] { status = pair.zero->Wait(waiting, Soon()); });
    pair.fabric->Kill(1);
    waiter.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "rank 1 died")) << status;
    // What it had sent before is still received.
    const auto receive = pair.zero->StartRecv(1, MakeTag(1, 0), BufferOf(got));
    ASSERT_TRUE(receive.ok()) << receive.status();
    EXPECT_TRUE(pair.zero->Wait(*receive, Soon()).ok());
    EXPECT_EQ(got, 11);
    EXPECT_TRUE(absl::IsUnavailable(pair.zero->StartSend(1, MakeTag(0, 0), BufferOf(sent)).status()));
    EXPECT_TRUE(absl::IsUnavailable(pair.zero->StartRecv(1, MakeTag(1, 0), BufferOf(got)).status()));
    EXPECT_TRUE(absl::IsUnavailable(pair.one->StartSend(0, MakeTag(1, 0), BufferOf(sent)).status()));
  }
}

TEST(InMemoryTransportTest, MovesTheFakeDevicesMemory) {
  Pair pair = MakePair(5, true);
  std::vector<int64_t> values(1000), back(1000);
  std::iota(values.begin(), values.end(), 1);
  const Buffer from = OnDevice(8000), to = OnDevice(8000);
  ASSERT_TRUE(FakeDevice::CopyIn(from.data, values.data(), 8000).ok());
  Buffer part = from;  // a span within an allocation
  part.data = static_cast<char*>(from.data) + 800;
  part.bytes = 4000;
  Buffer target = to;
  target.bytes = 4000;
  const Handle receive = *pair.one->StartRecv(0, MakeTag(0, 0), target);
  const Handle send = *pair.zero->StartSend(1, MakeTag(0, 0), part);
  ASSERT_TRUE(pair.zero->Wait(send, Soon()).ok());
  ASSERT_TRUE(pair.one->Wait(receive, Soon()).ok());
  ASSERT_TRUE(FakeDevice::CopyOut(back.data(), to.data, 8000).ok());
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(back[i], i < 500 ? values[i + 100] : -1);
  part.bytes = 8000;
  EXPECT_EQ(pair.zero->StartSend(1, MakeTag(0, 1), part).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(InMemoryTransportTest, RefusesADevicesMemoryWithoutAView) {
  auto fabric = *InMemoryFabric::Create(1, {});
  const auto transport = *fabric->CreateTransport(0);
  const Buffer on_device = OnDevice(8);
  const absl::Status status = transport->StartSend(0, MakeTag(0, 0), on_device).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(InMemoryTransportDeathTest, TheHostMayNotTouchTheFakeDevice) {
  const Buffer buffer = OnDevice(8);
  EXPECT_DEATH(*static_cast<volatile char*>(buffer.data) = 1, "");
}

TEST(InMemoryTransportTest, RefusesWrongRanks) {
  EXPECT_EQ(InMemoryFabric::Create(0, {}).status().code(), absl::StatusCode::kInvalidArgument);
  auto fabric = *InMemoryFabric::Create(2, {});
  EXPECT_EQ(fabric->CreateTransport(2).status().code(), absl::StatusCode::kInvalidArgument);
  auto first = *fabric->CreateTransport(1);
  EXPECT_EQ(fabric->CreateTransport(1).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace adjoin
