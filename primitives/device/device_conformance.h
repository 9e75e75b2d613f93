// The tests that every device must pass. They are in device_conformance.cc; a test program names the devices on which
// they run:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, DeviceConformanceTest,
//                            testing::Values(DeviceCase{.name = "Mine",
//                                                       .open = [] { return MyDevice::Open(0); },
//                                                       .pinned = MemoryKind::kPinnedHost}),
//                            DeviceCaseName);
#ifndef ADJOIN_PRIMITIVES_DEVICE_DEVICE_CONFORMANCE_H_
#define ADJOIN_PRIMITIVES_DEVICE_DEVICE_CONFORMANCE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "primitives/device/device.h"

namespace adjoin {

struct DeviceCase {
  std::string name;  // letters and digits: the end of the tests' names
  // Opens a device for one test. kNotFound skips the test: this machine has no such device.
  std::function<absl::StatusOr<std::shared_ptr<Device>>()> open;
  MemoryKind pinned = MemoryKind::kPinnedHost;  // KindOf of its pinned memory
  bool copies_any_host_memory = true;           // or only pinned memory
  // What was found wrong while a test ran, empty for nothing: asked when the device and all of its own are gone.
  std::function<std::string()> mistakes = nullptr;
};

inline void PrintTo(const DeviceCase& c, std::ostream* out) { *out << c.name; }

inline std::string DeviceCaseName(const testing::TestParamInfo<DeviceCase>& info) { return info.param.name; }

class DeviceConformanceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Bytes in pinned memory that a test fills, and memory of the device.
  DeviceAllocation Pinned(std::size_t bytes);
  DeviceAllocation OnDevice(std::size_t bytes);
  std::shared_ptr<DeviceStream> NewStream();

  std::shared_ptr<Device> device_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_DEVICE_CONFORMANCE_H_
