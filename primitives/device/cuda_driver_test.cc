#include "primitives/device/cuda_driver.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "primitives/device/cuda_device.h"
#include "primitives/device/cuda_functions.h"
#include "primitives/device/device.h"
#include "primitives/device/testing/fake_cuda.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(CudaDriverTest, LoadsAndInitializes) {
  FakeCuda& fake = FakeCuda::Reset(1);
  absl::StatusOr<std::shared_ptr<const CudaDriver>> driver = CudaDriver::Open(fake.path());
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->version(), 12040);
  EXPECT_EQ((*driver)->library(), fake.path());
  EXPECT_THAT(fake.Calls(), ElementsAre("cuInit(0)", "cuDriverGetVersion()"));
}

TEST(CudaDriverTest, SaysWhichLibraryIsMissing) {
  const absl::Status status = CudaDriver::Open("libcuda-of-no-machine.so.1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("there is no CUDA driver: libcuda-of-no-machine.so.1"), HasSubstr("No such file")));
}

TEST(CudaDriverTest, NamesTheFunctionThatIsMissing) {
  FakeCuda& fake = FakeCuda::Reset(1);
  const std::string library = FakeCuda::PathOf("libfake_cuda_without_event_query.so");
  const absl::Status status = CudaDriver::Open(library).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(library), HasSubstr("has no function cuEventQuery;")));
  EXPECT_THAT(fake.AllCalls(), ElementsAre());
}

// cuDeviceGetUuid_v2 came with CUDA 11.4.
TEST(CudaDriverTest, TakesAnOlderFunctionWithTheSameParameters) {
  // The library has a state of its own, without devices.
  const absl::Status status = CudaDriver::Open(FakeCuda::PathOf("libfake_cuda_without_uuid_v2.so")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST(CudaDriverTest, FindsNoDevice) {
  FakeCuda& fake = FakeCuda::Reset(0);
  const absl::Status status = CudaDriver::Open(fake.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_EQ(MessageOf(status),
            absl::StrCat(fake.path(), ": cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"));
}

TEST(CudaDriverTest, SaysWhyItCannotStart) {
  FakeCuda& fake = FakeCuda::Reset(1);
  fake.Fail("cuInit", cuda::kStubLibrary);
  EXPECT_EQ(CudaDriver::Open(fake.path()).status().code(), absl::StatusCode::kNotFound);
  fake.Fail("cuInit", cuda::kSystemNotReady);
  EXPECT_EQ(CudaDriver::Open(fake.path()).status().code(), absl::StatusCode::kUnavailable);
  fake.Fail("cuInit", cuda::kSuccess);
  fake.Fail("cuDriverGetVersion", cuda::kInvalidValue);
  const absl::Status status = CudaDriver::Open(fake.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("cuDriverGetVersion: CUDA_ERROR_INVALID_VALUE (invalid argument)"));
}

TEST(CudaDriverTest, GivesEachResultItsCode) {
  FakeCuda& fake = FakeCuda::Reset(1);
  const std::shared_ptr<const CudaDriver> driver = CudaDriver::Open(fake.path()).value();
  EXPECT_EQ(driver->Check(cuda::kSuccess, "cuThis"), absl::OkStatus());
  for (const auto& [result, code] : std::vector<std::pair<cuda::Result, absl::StatusCode>>{
           {cuda::kOutOfMemory, absl::StatusCode::kResourceExhausted},
           {cuda::kEccUncorrectable, absl::StatusCode::kUnavailable},
           {cuda::kIllegalAddress, absl::StatusCode::kUnavailable},
           {cuda::kLaunchFailed, absl::StatusCode::kUnavailable},
           {cuda::kDeviceUnavailable, absl::StatusCode::kUnavailable},
           {cuda::kInvalidHandle, absl::StatusCode::kInternal},
           {static_cast<cuda::Result>(999), absl::StatusCode::kInternal},
       }) {
    EXPECT_EQ(driver->Check(result, "cuThis").code(), code) << result;
  }
  EXPECT_EQ(MessageOf(driver->Check(cuda::kIllegalAddress, "cuThis", "CUDA device 3 (Blue)")),
            "CUDA device 3 (Blue): cuThis: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
  // A result that the driver itself cannot name.
  EXPECT_EQ(MessageOf(driver->Check(static_cast<cuda::Result>(4711), "cuThis", "CUDA device 3")),
            "CUDA device 3: cuThis: CUDA error 4711");
}

TEST(ListCudaDevicesTest, ListsWithoutContexts) {
  FakeCuda& fake = FakeCuda::Reset(2);
  const std::shared_ptr<const CudaDriver> driver = CudaDriver::Open(fake.path()).value();
  absl::StatusOr<std::vector<CudaDeviceInfo>> devices = ListCudaDevices(*driver);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(*devices, (std::vector<CudaDeviceInfo>{{.index = 0,
                                                    .name = "Fake GPU 0",
                                                    .pci_bus_id = "0000:00:00.0",
                                                    .uuid = "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae00",
                                                    .memory_bytes = int64_t{1} << 30},
                                                   {.index = 1,
                                                    .name = "Fake GPU 1",
                                                    .pci_bus_id = "0000:01:00.0",
                                                    .uuid = "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01",
                                                    .memory_bytes = int64_t{1} << 30}}));
  EXPECT_THAT(fake.Calls(), Not(Contains(HasSubstr("Ctx"))));
  EXPECT_EQ(fake.Mistakes(), "");
}

TEST(ListCudaDevicesTest, NamesTheDeviceThatFails) {
  FakeCuda& fake = FakeCuda::Reset(2);
  const std::shared_ptr<const CudaDriver> driver = CudaDriver::Open(fake.path()).value();
  for (const char* call :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetPCIBusId", "cuDeviceGetUuid_v2", "cuDeviceTotalMem_v2"}) {
    fake.Fail(call, cuda::kEccUncorrectable, 1);
    const absl::Status status = ListCudaDevices(*driver).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(MessageOf(status),
                AllOf(HasSubstr("CUDA device 1"), HasSubstr(absl::StrCat(call, ": CUDA_ERROR_ECC_UNCORRECTABLE"))));
    fake.Fail(call, cuda::kSuccess);
  }
  fake.Fail("cuDeviceGetCount", cuda::kNotInitialized);
  const absl::Status status = ListCudaDevices(*driver).status();
  EXPECT_THAT(MessageOf(status), HasSubstr("cuDeviceGetCount: CUDA_ERROR_NOT_INITIALIZED (initialization error)"));
}

TEST(FreeBytesOfCudaDeviceTest, MeasuresAndLeavesNothingBehind) {
  FakeCuda& fake = FakeCuda::Reset(2);
  const std::shared_ptr<const CudaDriver> driver = CudaDriver::Open(fake.path()).value();
  EXPECT_EQ(FreeBytesOfCudaDevice(driver, 1).value(), int64_t{1} << 30);
  EXPECT_EQ(fake.Live(), "");
  cuda::Context current = nullptr;
  ASSERT_EQ(driver->functions().cuCtxGetCurrent(&current), cuda::kSuccess);
  EXPECT_EQ(current, nullptr);  // as before
  {
    const std::shared_ptr<Device> device = CudaDevice::Open(driver, 1).value();
    const DeviceAllocation memory = device->Allocate(1000).value();
    EXPECT_EQ(FreeBytesOfCudaDevice(driver, 1).value(), (int64_t{1} << 30) - 1000);
    EXPECT_EQ(FreeBytesOfCudaDevice(driver, 0).value(), int64_t{1} << 30);
    EXPECT_EQ(fake.Live(), "1 context, 1 allocation");
    ASSERT_EQ(driver->functions().cuCtxGetCurrent(&current), cuda::kSuccess);
    EXPECT_NE(current, nullptr);  // the device's
  }
  EXPECT_EQ(FreeBytesOfCudaDevice(driver, 2).status().code(), absl::StatusCode::kNotFound);
  fake.Fail("cuMemGetInfo_v2", cuda::kInvalidContext);
  EXPECT_THAT(MessageOf(FreeBytesOfCudaDevice(driver, 0).status()),
              HasSubstr("CUDA device 0 (Fake GPU 0): cuMemGetInfo_v2: CUDA_ERROR_INVALID_CONTEXT"));
  EXPECT_EQ(fake.Live(), "");
  EXPECT_EQ(fake.Mistakes(), "");
}

}  // namespace
}  // namespace adjoin
