// Runs the conformance tests on every transport: the delayed one with several orders of arrival.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/device/device.h"
#include "primitives/transport/conformance_suite.h"
#include "primitives/transport/on_device_transport.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

ConformanceCase Case(TransportKind kind, const std::string& lane, uint64_t seed) {
  return {.name = absl::StrCat(ToString(kind), "Seed", seed),
          .open = [kind, seed](int n) { return OpenTransports(n, kind, seed); },
          .lane = lane,
          .seed = seed};
}

// From and to the memory of devices.
ConformanceCase OnDeviceCase(TransportKind kind, const std::string& lane, uint64_t seed) {
  ConformanceCase on_device = Case(kind, lane, seed);
  on_device.open = [kind, seed](int n) -> absl::StatusOr<std::vector<std::unique_ptr<Transport>>> {
    ADJOIN_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Transport>> transports, OpenTransports(n, kind, seed));
    for (std::unique_ptr<Transport>& transport : transports) {
      ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, DeviceOfRank(kind, transport->rank(), seed));
      transport = OnDevice(std::move(transport), std::move(device));
    }
    return transports;
  };
  return on_device;
}

INSTANTIATE_TEST_SUITE_P(InMemory, ConformanceTest, testing::Values(Case(TransportKind::kInMemory, "memory", 0)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Delayed, ConformanceTest,
                         testing::Values(Case(TransportKind::kInMemoryDelayed, "memory", 1),
                                         Case(TransportKind::kInMemoryDelayed, "memory", 2),
                                         Case(TransportKind::kInMemoryDelayed, "memory", 3),
                                         Case(TransportKind::kInMemoryDelayed, "memory", 4)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Device, ConformanceTest,
                         testing::Values(OnDeviceCase(TransportKind::kDeviceDirect, "memory of a device", 5),
                                         OnDeviceCase(TransportKind::kDeviceStaged, "staged by fake device", 6),
                                         OnDeviceCase(TransportKind::kUcxStaged, "posix/memory staged by fake", 7)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Cuda, ConformanceTest,
                         testing::Values(OnDeviceCase(TransportKind::kCudaStaged, "memory staged by", 8),
                                         OnDeviceCase(TransportKind::kCudaUcx, "posix/memory", 0)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(Ucx, ConformanceTest,
                         testing::Values(Case(TransportKind::kUcxSharedMemory, "posix/", 0),
                                         Case(TransportKind::kUcxTcp, "tcp/", 0)),
                         ConformanceCaseName);

}  // namespace
}  // namespace adjoin
