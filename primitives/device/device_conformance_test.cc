// The conformance suite on every device that needs no accelerator, and on the GPU of a machine that has one.
#include "primitives/device/device_conformance.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "primitives/device/cuda_device.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/device/device.h"
#include "primitives/device/fake_device.h"
#include "primitives/device/host_device.h"
#include "primitives/device/testing/fake_cuda.h"

namespace adjoin {
namespace {

absl::StatusOr<std::shared_ptr<Device>> OpenFakeDevice() {
  FakeDevice& device = FakeDevice::Get(3);
  device.SetDelays(TestSeed(), absl::Microseconds(200));
  return std::shared_ptr<Device>(std::shared_ptr<void>(), &device);
}

FakeCuda* fake = nullptr;

absl::StatusOr<std::shared_ptr<Device>> OpenOverFakeDriver() {
  fake = &FakeCuda::Reset(2);
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::Open(fake->path()));
  return CudaDevice::Open(std::move(driver), 1);
}

std::string MistakesOfFakeDriver() {
  const std::string live = fake->Live();
  return absl::StrCat(fake->Mistakes(), live.empty() ? "" : "still there: ", live);
}

absl::StatusOr<std::shared_ptr<Device>> OpenOverRealDriver() {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::Open());
  return CudaDevice::Open(std::move(driver), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Every, DeviceConformanceTest,
    testing::Values(
        DeviceCase{.name = "Host", .open = [] { return HostDevice::Create(); }, .pinned = MemoryKind::kHost},
        DeviceCase{.name = "Fake", .open = OpenFakeDevice},
        DeviceCase{.name = "CudaOverFakeDriver", .open = OpenOverFakeDriver, .mistakes = MistakesOfFakeDriver},
        DeviceCase{.name = "Cuda", .open = OpenOverRealDriver}),
    DeviceCaseName);

}  // namespace
}  // namespace adjoin
