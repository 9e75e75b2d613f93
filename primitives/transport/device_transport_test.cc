// What the conformance tests do not show: memory that is used again, bounds, refusals.
#include "primitives/transport/device_transport.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "primitives/device/fake_device.h"
#include "primitives/transport/in_memory_transport.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport_factory.h"

namespace adjoin {
namespace {

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

std::shared_ptr<Device> DeviceOf(int rank) {
  return std::shared_ptr<Device>(std::shared_ptr<void>(), &FakeDevice::Get(rank));
}

// Two ranks of one thread, on fake devices 0 and 1, staged; the streams of device 1 are slow.
class DeviceTransportTest : public testing::Test {
 protected:
  void Open(int64_t most_staged_bytes) {
    fabric_ = *InMemoryFabric::Create(2, {});
    for (int rank = 0; rank < 2; ++rank) {
      FakeDevice::Get(rank).SetDelays(TestSeed(), absl::Milliseconds(rank == 0 ? 0 : 3));
      const DeviceTransport::Options options{.staged = true, .most_staged_bytes = most_staged_bytes};
      ranks_.push_back(*DeviceTransport::Create(*fabric_->CreateTransport(rank), DeviceOf(rank), options));
    }
  }

  // Memory of the rank's device whose bytes are `value`, in the order of its default stream.
  Buffer OnDevice(int rank, std::size_t bytes, unsigned char value) {
    const DeviceAllocation memory = *FakeDevice::Get(rank).Allocate(bytes);
    Buffer buffer;
    buffer.data = memory.data;
    buffer.bytes = bytes;
    buffer.kind = MemoryKind::kFakeDevice;
    buffer.stream = *FakeDevice::Get(rank).StreamOf(nullptr);
    buffer.keepalive = memory.keepalive;
    EXPECT_TRUE(buffer.stream->Set(buffer.data, value, bytes).ok());
    return buffer;
  }

  // Whether all bytes are `value` once the buffer's stream is through.
  static bool Holds(const Buffer& buffer, unsigned char value) {
    std::vector<unsigned char> bytes(buffer.bytes);
    FakeDevice::Get(1).default_stream().Drain();
    EXPECT_TRUE(FakeDevice::CopyOut(bytes.data(), buffer.data, buffer.bytes).ok());
    return bytes == std::vector<unsigned char>(buffer.bytes, value);
  }

  static Tag TagOf(int64_t op, int source = 0) { return *Tag::Make({.communicator = 0, .op = op, .source = source}); }

  std::shared_ptr<InMemoryFabric> fabric_;
  std::vector<std::unique_ptr<Transport>> ranks_;
};

TEST_F(DeviceTransportTest, PinnedMemoryIsUsedAgainOnlyAfterItsCopy) {
  Open(1 << 20);
  constexpr int kMessages = 60;
  std::vector<Buffer> received;
  for (int i = 0; i < kMessages; ++i) {
    const unsigned char value = static_cast<unsigned char>(i + 1);
    const Handle send = *ranks_[0]->StartSend(1, TagOf(i), OnDevice(0, 4096, value));
    ASSERT_TRUE(ranks_[0]->Wait(send, Soon()).ok());
    // Its bytes go straight to pinned memory: that of an earlier message whose copy to the device may be queued still.
    received.push_back(OnDevice(1, 4096, 0));
    const Handle receive = *ranks_[1]->StartRecv(0, TagOf(i), received.back());
    ASSERT_TRUE(ranks_[1]->Wait(receive, Soon()).ok());
  }
  for (int i = 0; i < kMessages; ++i) EXPECT_TRUE(Holds(received[i], static_cast<unsigned char>(i + 1))) << i;
}

TEST_F(DeviceTransportTest, SendsWaitForRoomAndNothingWaitsForTheDevice) {
  Open(4096);
  const int64_t before = FakeDevice::Get(0).synchronizations() + FakeDevice::Get(1).synchronizations();
  std::vector<Handle> sends, receives;
  std::vector<Buffer> received;
  for (int i = 0; i < 20; ++i) {
    sends.push_back(*ranks_[0]->StartSend(1, TagOf(i), OnDevice(0, 4096, static_cast<unsigned char>(i + 1))));
    received.push_back(OnDevice(1, 4096, 0));
    receives.push_back(*ranks_[1]->StartRecv(0, TagOf(i), received.back()));
  }
  // The last first: the others are sent meanwhile, one after the other.
  for (int i = 19; i >= 0; --i) ASSERT_TRUE(ranks_[0]->Wait(sends[i], Soon()).ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ranks_[1]->Wait(receives[i], Soon()).ok());
  EXPECT_EQ(FakeDevice::Get(0).synchronizations() + FakeDevice::Get(1).synchronizations(), before);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Holds(received[i], static_cast<unsigned char>(i + 1))) << i;
}

// Receives have their memory at once: they must not keep this rank's sends, for which the others wait, from leaving.
TEST_F(DeviceTransportTest, SendsLeaveWhateverIsReceived) {
  Open(4096);
  std::vector<Handle> sends[2], receives[2];
  std::vector<Buffer> received[2];
  for (int rank : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      received[rank].push_back(OnDevice(rank, 4096, 0));
      receives[rank].push_back(*ranks_[rank]->StartRecv(1 - rank, TagOf(i, 1 - rank), received[rank].back()));
    }
  }
  for (int rank : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      sends[rank].push_back(*ranks_[rank]->StartSend(1 - rank, TagOf(i, rank), OnDevice(rank, 4096, 40 + i)));
    }
  }
  for (int rank : {0, 1}) {
    for (const Handle send : sends[rank]) ASSERT_TRUE(ranks_[rank]->Wait(send, Soon()).ok());
  }
  for (int rank : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(ranks_[rank]->Wait(receives[rank][i], Soon()).ok());
      FakeDevice::Get(rank).default_stream().Drain();
      EXPECT_TRUE(Holds(received[rank][i], static_cast<unsigned char>(40 + i)));
    }
  }
}

TEST_F(DeviceTransportTest, AMessageThatIsGivenUpLeavesItsMemoryAlone) {
  Open(1 << 20);
  Buffer memory = OnDevice(1, 4096, 7);
  const Handle receive = *ranks_[1]->StartRecv(0, TagOf(1), memory);
  EXPECT_EQ(ranks_[1]->Wait(receive, Deadline::After(absl::ZeroDuration())).code(),
            absl::StatusCode::kDeadlineExceeded);
  const Handle late = *ranks_[0]->StartSend(1, TagOf(1), OnDevice(0, 4096, 9));
  ASSERT_TRUE(ranks_[0]->Wait(late, Soon()).ok());
  EXPECT_TRUE(ranks_[1]->Test(receive));
  EXPECT_TRUE(Holds(memory, 7));
}

TEST(DeviceTransportFactoryTest, StagesOrRefusesAsToldWhereUcxCannotMoveTheMemory) {
  TransportOptions options;
  options.device = DeviceOf(0);
  options.gpu_direct = GpuDirect::kRequired;
  const absl::Status refused = MakeTransport(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "built without CUDA")) << refused;
  for (const GpuDirect gpu_direct : {GpuDirect::kAuto, GpuDirect::kOff}) {
    options.gpu_direct = gpu_direct;
    const auto transport = MakeTransport(options);
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_TRUE(absl::StrContains((*transport)->Describe(0), "staged by fake device 0")) << (*transport)->Describe(0);
  }
}

TEST(DeviceTransportFactoryTest, RefusesDirectMessagesOfATransportThatHasNone) {
  auto fabric = *InMemoryFabric::Create(1, {});
  const absl::Status refused =
      DeviceTransport::Create(*fabric->CreateTransport(0), DeviceOf(0), {.staged = false}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
}

}  // namespace
}  // namespace adjoin
