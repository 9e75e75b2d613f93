#include "primitives/device/host_device.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "primitives/device/device.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

TEST(HostDeviceTest, IsTheHost) {
  const std::shared_ptr<Device> device = HostDevice::Create();
  EXPECT_EQ(device->kind(), MemoryKind::kHost);
  EXPECT_EQ(device->index(), 0);
  EXPECT_EQ(device->name(), "host");
}

TEST(HostDeviceTest, IsDoneWhenACallReturns) {
  const std::shared_ptr<Device> device = HostDevice::Create();
  const std::shared_ptr<DeviceStream> stream = device->CreateStream().value();
  const std::vector<char> from{1, 2, 3, 4, 5, 6};
  std::vector<char> to(6);
  ASSERT_TRUE(stream->CopyRows(to.data(), 3, from.data(), 2, 2, 2).ok());
  EXPECT_EQ(to, (std::vector<char>{1, 2, 0, 3, 4, 0}));
  EXPECT_TRUE(stream->Record().value()->Done().value());
  EXPECT_EQ(device->synchronizations(), 0);
}

TEST(HostDeviceTest, AlignsMemory) {
  const std::shared_ptr<Device> device = HostDevice::Create();
  for (std::size_t bytes : {1, 63, 65, 1000}) {
    const DeviceAllocation memory = device->Allocate(bytes).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data) % 64, 0) << bytes;
  }
}

TEST(HostDeviceTest, NamesItselfInErrors) {
  const std::shared_ptr<Device> device = HostDevice::Create();
  int handle = 0;
  const absl::Status stream = device->StreamOf(&handle).status();
  EXPECT_EQ(stream.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(stream.message()), HasSubstr("host: no other library has streams"));
  const std::size_t bytes = static_cast<std::size_t>(device->memory_bytes()) + 1;
  const absl::Status memory = device->Allocate(bytes).status();
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.message()), HasSubstr("host: there is no memory for " + std::to_string(bytes)));
}

TEST(MemoryKindTest, HasNames) {
  EXPECT_EQ(ToString(MemoryKind::kHost), "host memory");
  EXPECT_EQ(ToString(MemoryKind::kPinnedHost), "pinned host memory");
  EXPECT_EQ(ToString(MemoryKind::kCuda), "CUDA memory");
  EXPECT_EQ(ToString(MemoryKind::kFakeDevice), "memory of the fake device");
}

}  // namespace
}  // namespace adjoin
