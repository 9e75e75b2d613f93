#include "primitives/device/cuda_device.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/device/cuda_functions.h"
#include "primitives/device/device.h"
#include "primitives/device/testing/fake_cuda.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    driver_ = CudaDriver::Open(fake_.path()).value();
    device_ = CudaDevice::Open(driver_, 1).value();
    seen_ = fake_.Calls().size();
  }

  void TearDown() override {
    device_ = nullptr;
    EXPECT_EQ(fake_.Live(), "");
    EXPECT_EQ(fake_.Mistakes(), "");
  }

  // The calls since the last time.
  std::vector<std::string> NewCalls() {
    std::vector<std::string> calls = fake_.Calls();
    calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(seen_));
    seen_ += calls.size();
    return calls;
  }

  int CountOf(absl::string_view call) {
    int count = 0;
    for (const std::string& line : fake_.AllCalls()) count += absl::StartsWith(line, absl::StrCat(call, "(")) ? 1 : 0;
    return count;
  }

  FakeCuda& fake_ = FakeCuda::Reset(2);
  std::shared_ptr<const CudaDriver> driver_;
  std::shared_ptr<Device> device_;
  std::size_t seen_ = 0;
};

TEST_F(CudaDeviceTest, OpensThePrimaryContext) {
  EXPECT_EQ(device_->kind(), MemoryKind::kCuda);
  EXPECT_EQ(device_->index(), 1);
  EXPECT_EQ(device_->name(), "Fake GPU 1");
  EXPECT_EQ(device_->memory_bytes(), int64_t{1} << 30);
  EXPECT_THAT(fake_.Calls(), Contains("cuDevicePrimaryCtxRetain(1)").Times(1));
  device_ = nullptr;
  EXPECT_THAT(fake_.Calls(), Contains("cuDevicePrimaryCtxRelease_v2(1)").Times(1));
}

TEST_F(CudaDeviceTest, SharesTheContextWithOthers) {
  const std::shared_ptr<Device> other = CudaDevice::Open(driver_, 1).value();
  const DeviceAllocation memory = other->Allocate(64).value();
  EXPECT_EQ(fake_.Live(), "1 context, 1 allocation");
  EXPECT_EQ(device_->KindOf(memory.data).value(), MemoryKind::kCuda);
}

TEST_F(CudaDeviceTest, RefusesDevicesThatAreNotThere) {
  for (int index : {-1, 2}) {
    const absl::Status status = CudaDevice::Open(driver_, index).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(MessageOf(status), absl::StrCat("CUDA device ", index, ": this process sees 2 CUDA devices, 0 to 1"));
  }
}

TEST_F(CudaDeviceTest, RefusesDevicesWithoutUnifiedAddresses) {
  fake_.SetAttribute(cuda::kUnifiedAddressing, 0);
  const absl::Status status = CudaDevice::Open(driver_, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("CUDA device 0 (Fake GPU 0): it has no addresses in common"));
}

TEST_F(CudaDeviceTest, CallsTheDriverInOrder) {
  const std::shared_ptr<DeviceStream> one = device_->CreateStream().value();
  const std::shared_ptr<DeviceStream> two = device_->CreateStream().value();
  const DeviceAllocation memory = device_->Allocate(256).value();
  const DeviceAllocation pinned = device_->AllocatePinned(128).value();
  EXPECT_THAT(NewCalls(), ElementsAre("cuCtxSetCurrent(context1)", "cuStreamCreate(1)", "cuStreamCreate(1)",
                                      "cuMemAlloc_v2(256)", "cuMemHostAlloc(128, 1)"));
  char* const on_device = static_cast<char*>(memory.data);
  char* const on_host = static_cast<char*>(pinned.data);
  ASSERT_TRUE(one->Copy(on_device + 8, on_host + 4, 100).ok());
  ASSERT_TRUE(one->CopyRows(on_device, 32, on_host, 16, 12, 8).ok());
  ASSERT_TRUE(one->Set(on_device + 1, 0xff, 7).ok());
  std::shared_ptr<DeviceEvent> event = one->Record().value();
  ASSERT_TRUE(two->WaitFor(*event).ok());
  ASSERT_TRUE(two->Copy(on_host, on_device, 128).ok());
  ASSERT_TRUE(event->Done().value());
  ASSERT_TRUE(two->Synchronize().ok());
  EXPECT_THAT(NewCalls(), ElementsAre("cuMemcpyAsync(device1+8, pinned1+4, 100, stream1)",
                                      "cuMemcpy2DAsync_v2(device1+0, 32, pinned1+0, 16, 12, 8, stream1)",
                                      "cuMemsetD8Async(device1+1, 255, 7, stream1)", "cuEventCreate(2)",
                                      "cuEventRecord(event1, stream1)", "cuStreamWaitEvent(stream2, event1, 0)",
                                      "cuMemcpyAsync(pinned1+0, device1+0, 128, stream2)", "cuEventQuery(event1)",
                                      "cuStreamSynchronize(stream2)"));
}

TEST_F(CudaDeviceTest, CopiesRowsInOneSpanAsOne) {
  const std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  const DeviceAllocation a = device_->Allocate(256).value(), b = device_->Allocate(256).value();
  NewCalls();
  ASSERT_TRUE(stream->CopyRows(a.data, 16, b.data, 16, 16, 16).ok());
  ASSERT_TRUE(stream->CopyRows(a.data, 0, b.data, 0, 200, 1).ok());
  EXPECT_THAT(NewCalls(), ElementsAre("cuMemcpyAsync(device1+0, device2+0, 256, stream1)",
                                      "cuMemcpyAsync(device1+0, device2+0, 200, stream1)"));
}

TEST_F(CudaDeviceTest, CopiesRowsThatAreTooFarApartOneByOne) {
  fake_.SetAttribute(cuda::kMaxPitch, 99);
  const std::shared_ptr<Device> device = CudaDevice::Open(driver_, 1).value();
  const std::shared_ptr<DeviceStream> stream = device->CreateStream().value();
  const DeviceAllocation a = device_->Allocate(300).value(), b = device_->Allocate(300).value();
  NewCalls();
  ASSERT_TRUE(stream->CopyRows(a.data, 100, b.data, 50, 40, 3).ok());
  EXPECT_THAT(NewCalls(), ElementsAre("cuMemcpyAsync(device1+0, device2+0, 40, stream1)",
                                      "cuMemcpyAsync(device1+100, device2+50, 40, stream1)",
                                      "cuMemcpyAsync(device1+200, device2+100, 40, stream1)"));
  ASSERT_TRUE(stream->CopyRows(a.data, 99, b.data, 50, 40, 3).ok());
  EXPECT_THAT(NewCalls(), ElementsAre("cuMemcpy2DAsync_v2(device1+0, 99, device2+0, 50, 40, 3, stream1)"));
}

TEST_F(CudaDeviceTest, WrapsStreamsOfOthersWithoutOwningThem) {
  cuda::Stream native = nullptr;
  const std::shared_ptr<DeviceStream> own = device_->CreateStream().value();  // makes the context current
  ASSERT_EQ(driver_->functions().cuStreamCreate(&native, 0), cuda::kSuccess);
  const DeviceAllocation memory = device_->Allocate(16).value();
  NewCalls();
  std::shared_ptr<DeviceStream> wrapped = device_->StreamOf(native).value();
  std::shared_ptr<DeviceStream> by_default = device_->StreamOf(nullptr).value();
  ASSERT_TRUE(wrapped->Set(memory.data, 1, 16).ok());
  ASSERT_TRUE(by_default->Set(memory.data, 2, 16).ok());
  wrapped = by_default = nullptr;
  EXPECT_THAT(NewCalls(),
              ElementsAre("cuMemsetD8Async(device1+0, 1, 16, stream2)", "cuMemsetD8Async(device1+0, 2, 16, default)"));
  ASSERT_EQ(driver_->functions().cuStreamDestroy_v2(native), cuda::kSuccess);
}

TEST_F(CudaDeviceTest, UsesEventsAgain) {
  const std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  for (int i = 0; i < 10; ++i) {
    const std::shared_ptr<DeviceEvent> event = stream->Record().value();
    ASSERT_TRUE(event->Done().value());
  }
  EXPECT_EQ(CountOf("cuEventCreate"), 1);
  std::vector<std::shared_ptr<DeviceEvent>> held;
  for (int i = 0; i < 3; ++i) held.push_back(stream->Record().value());
  EXPECT_EQ(CountOf("cuEventCreate"), 3);
  held.clear();
  EXPECT_EQ(CountOf("cuEventDestroy_v2"), 0);
  for (int i = 0; i < 3; ++i) held.push_back(stream->Record().value());
  EXPECT_EQ(CountOf("cuEventCreate"), 3);
}

TEST_F(CudaDeviceTest, DestroysEachEventOnce) {
  const std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  std::shared_ptr<DeviceEvent> outlives = stream->Record().value();
  (void)stream->Record().value();
  device_ = nullptr;
  EXPECT_EQ(CountOf("cuEventDestroy_v2"), 0);
  EXPECT_TRUE(outlives->Done().value());
  outlives = nullptr;
  EXPECT_EQ(fake_.Live(), "1 context, 1 stream, 2 events");
}

TEST_F(CudaDeviceTest, KnowsWhenWorkIsNotDone) {
  const std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  const DeviceAllocation memory = device_->Allocate(16).value(), host = device_->AllocatePinned(16).value();
  std::memset(host.data, 0, 16);
  fake_.Hold();
  const std::shared_ptr<DeviceEvent> before = stream->Record().value();
  ASSERT_TRUE(stream->Set(memory.data, 8, 16).ok());
  ASSERT_TRUE(stream->Copy(host.data, memory.data, 16).ok());
  const std::shared_ptr<DeviceEvent> after = stream->Record().value();
  EXPECT_TRUE(before->Done().value());
  EXPECT_FALSE(after->Done().value());
  EXPECT_EQ(static_cast<char*>(host.data)[15], 0);
  fake_.Release();
  EXPECT_TRUE(after->Done().value());
  EXPECT_EQ(static_cast<char*>(host.data)[15], 8);
  EXPECT_EQ(CountOf("cuStreamSynchronize"), 0);
}

TEST_F(CudaDeviceTest, FreesMemoryAfterTheDeviceIsGone) {
  DeviceAllocation memory = device_->Allocate(16).value();
  DeviceAllocation pinned = device_->AllocatePinned(16).value();
  const std::shared_ptr<void> copy = memory.keepalive;
  device_ = nullptr;
  driver_ = nullptr;
  EXPECT_EQ(fake_.Live(), "1 context, 2 allocations");
  NewCalls();
  memory = {};
  EXPECT_THAT(NewCalls(), IsEmpty());  // `copy` is there
  std::thread([last = std::move(pinned)]() mutable { last = {}; }).join();
  EXPECT_THAT(NewCalls(), ElementsAre("cuCtxSetCurrent(context1)", "cuMemFreeHost(pinned1+0)"));
}

TEST_F(CudaDeviceTest, BindsItsContextOncePerThread) {
  const std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  const DeviceAllocation memory = device_->Allocate(16).value();
  NewCalls();
  std::thread([&] {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(stream->Set(memory.data, 1, 16).ok());
  }).join();
  EXPECT_THAT(NewCalls(),
              ElementsAre("cuCtxSetCurrent(context1)", "cuMemsetD8Async(device1+0, 1, 16, stream1)",
                          "cuMemsetD8Async(device1+0, 1, 16, stream1)", "cuMemsetD8Async(device1+0, 1, 16, stream1)"));
  // Another library has changed it.
  const std::shared_ptr<Device> other = CudaDevice::Open(driver_, 0).value();
  ASSERT_TRUE(other->CreateStream().ok());
  NewCalls();
  ASSERT_TRUE(stream->Set(memory.data, 1, 16).ok());
  EXPECT_THAT(NewCalls(), ElementsAre("cuCtxSetCurrent(context1)", "cuMemsetD8Async(device1+0, 1, 16, stream1)"));
}

TEST_F(CudaDeviceTest, WaitsForEventsOfOtherGpus) {
  const std::shared_ptr<Device> other = CudaDevice::Open(driver_, 0).value();
  const std::shared_ptr<DeviceStream> there = other->CreateStream().value();
  const std::shared_ptr<DeviceStream> here = device_->CreateStream().value();
  EXPECT_EQ(here->WaitFor(*there->Record().value()), absl::OkStatus());
  EXPECT_THAT(NewCalls(), Contains("cuStreamWaitEvent(stream2, event1, 0)"));
  const DeviceAllocation memory = device_->Allocate(8).value();
  EXPECT_EQ(other->KindOf(memory.data).value(), MemoryKind::kCuda);
}

// One call of the interface after another, with the function of the driver that it fails in.
TEST_F(CudaDeviceTest, ErrorsNameTheCallTheDeviceAndTheDriversWords) {
  const std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  const std::shared_ptr<DeviceEvent> event = stream->Record().value();
  const DeviceAllocation a = device_->Allocate(64).value(), b = device_->Allocate(64).value();
  struct Case {
    std::string function;
    std::string named;
    std::function<absl::Status()> call;
  };
  const std::vector<Case> cases{
      {"cuDeviceGet", "cuDeviceGet", [&] { return CudaDevice::Open(driver_, 1).status(); }},
      {"cuDeviceGetAttribute", "cuDeviceGetAttribute", [&] { return CudaDevice::Open(driver_, 1).status(); }},
      {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", [&] { return CudaDevice::Open(driver_, 1).status(); }},
      {"cuCtxGetCurrent", "cuCtxGetCurrent", [&] { return stream->Synchronize(); }},
      {"cuMemAlloc_v2", "cuMemAlloc_v2 of 77 bytes", [&] { return device_->Allocate(77).status(); }},
      {"cuMemHostAlloc", "cuMemHostAlloc of 78 bytes", [&] { return device_->AllocatePinned(78).status(); }},
      {"cuStreamCreate", "cuStreamCreate", [&] { return device_->CreateStream().status(); }},
      {"cuPointerGetAttribute", "cuPointerGetAttribute", [&] { return device_->KindOf(a.data).status(); }},
      {"cuMemcpyAsync", "cuMemcpyAsync of 11 bytes", [&] { return stream->Copy(a.data, b.data, 11); }},
      {"cuMemcpy2DAsync_v2", "cuMemcpy2DAsync_v2 of 16 bytes",
       [&] { return stream->CopyRows(a.data, 16, b.data, 16, 8, 2); }},
      {"cuMemsetD8Async", "cuMemsetD8Async of 5 bytes", [&] { return stream->Set(a.data, 0, 5); }},
      {"cuEventCreate", "cuEventCreate", [&] { return stream->Record().status(); }},
      {"cuEventQuery", "cuEventQuery", [&] { return event->Done().status(); }},
      {"cuStreamWaitEvent", "cuStreamWaitEvent", [&] { return stream->WaitFor(*event); }},
      {"cuStreamSynchronize", "cuStreamSynchronize", [&] { return stream->Synchronize(); }},
      {"cuEventRecord", "cuEventRecord", [&] { return stream->Record().status(); }},
  };
  for (const Case& c : cases) {
    for (const auto& [result, code, words] :
         {std::tuple{cuda::kOutOfMemory, absl::StatusCode::kResourceExhausted,
                     "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"},
          std::tuple{cuda::kIllegalAddress, absl::StatusCode::kUnavailable,
                     "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"},
          std::tuple{cuda::kInvalidHandle, absl::StatusCode::kInternal,
                     "CUDA_ERROR_INVALID_HANDLE (invalid resource handle)"}}) {
      fake_.Fail(c.function.c_str(), result);
      const absl::Status status = c.call();
      fake_.Fail(c.function.c_str(), cuda::kSuccess);
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("CUDA device 1"), HasSubstr(absl::StrCat(c.named, ": ", words))));
    }
    EXPECT_EQ(c.call(), absl::OkStatus()) << c.function;
  }
  std::thread([&] {
    fake_.Fail("cuCtxSetCurrent", cuda::kInvalidContext);
    EXPECT_EQ(MessageOf(stream->Synchronize()),
              "CUDA device 1 (Fake GPU 1): cuCtxSetCurrent: CUDA_ERROR_INVALID_CONTEXT (invalid device context)");
    fake_.Fail("cuCtxSetCurrent", cuda::kSuccess);
  }).join();
}

TEST_F(CudaDeviceTest, SaysWhichMemoryIsMissing) {
  const absl::Status status = device_->Allocate(std::size_t{1} << 40).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      MessageOf(status),
      "CUDA device 1 (Fake GPU 1): cuMemAlloc_v2 of 1099511627776 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

// After a lost device every call fails, also those at the end.
TEST_F(CudaDeviceTest, EndsAfterTheDeviceWasLost) {
  std::shared_ptr<DeviceStream> stream = device_->CreateStream().value();
  std::shared_ptr<DeviceEvent> event = stream->Record().value();
  DeviceAllocation memory = device_->Allocate(64).value();
  for (const char* call : {"cuCtxGetCurrent", "cuEventQuery", "cuMemFree_v2", "cuStreamDestroy_v2", "cuEventDestroy_v2",
                           "cuDevicePrimaryCtxRelease_v2"}) {
    fake_.Fail(call, cuda::kEccUncorrectable);
  }
  EXPECT_EQ(event->Done().status().code(), absl::StatusCode::kUnavailable);
  event = nullptr;
  stream = nullptr;
  memory = {};
  device_ = nullptr;
  EXPECT_THAT(fake_.Calls(), Contains("cuDevicePrimaryCtxRelease_v2(1)"));
  FakeCuda::Reset(2);
}

// The fake driver itself: what it is there to find.
TEST(FakeCudaDriverTest, RefusesWhatARealDriverRefuses) {
  FakeCuda& fake = FakeCuda::Reset(2);
  {
    const std::shared_ptr<const CudaDriver> driver = CudaDriver::Open(fake.path()).value();
    const cuda::Functions& cuda = driver->functions();
    const auto context_of = [&](int device) {
      cuda::Context context = nullptr;
      EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, device), cuda::kSuccess);
      return context;
    };
    cuda::Address address = 0;
    EXPECT_EQ(cuda.cuMemAlloc_v2(&address, 8), cuda::kInvalidContext);
    ASSERT_EQ(cuda.cuCtxSetCurrent(context_of(0)), cuda::kSuccess);
    ASSERT_EQ(cuda.cuMemAlloc_v2(&address, 8), cuda::kSuccess);
    EXPECT_EQ(cuda.cuMemAlloc_v2(&address, 0), cuda::kInvalidValue);
    EXPECT_EQ(cuda.cuMemsetD8Async(address, 1, 9, nullptr), cuda::kInvalidValue);  // a byte too many
    cuda::Stream stream = nullptr;
    ASSERT_EQ(cuda.cuStreamCreate(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
    ASSERT_EQ(cuda.cuStreamDestroy_v2(stream), cuda::kSuccess);
    EXPECT_EQ(cuda.cuMemsetD8Async(address, 1, 8, stream), cuda::kInvalidHandle);
    cuda::Event event = nullptr;
    ASSERT_EQ(cuda.cuEventCreate(&event, cuda::kEventDisableTiming), cuda::kSuccess);
    ASSERT_EQ(cuda.cuStreamCreate(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
    ASSERT_EQ(cuda.cuMemFree_v2(address), cuda::kSuccess);
    EXPECT_EQ(cuda.cuMemFree_v2(address), cuda::kInvalidValue);
    EXPECT_EQ(cuda.cuMemcpyAsync(address, address, 8, stream), cuda::kInvalidValue);
    ASSERT_EQ(cuda.cuCtxSetCurrent(context_of(1)), cuda::kSuccess);
    EXPECT_EQ(cuda.cuStreamSynchronize(stream), cuda::kInvalidContext);
    EXPECT_EQ(cuda.cuEventRecord(event, nullptr), cuda::kInvalidHandle);
    ASSERT_EQ(cuda.cuDevicePrimaryCtxRelease_v2(0), cuda::kSuccess);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRelease_v2(0), cuda::kInvalidContext);
    ASSERT_EQ(cuda.cuDevicePrimaryCtxRelease_v2(1), cuda::kSuccess);
  }
  EXPECT_THAT(fake.Mistakes(), HasSubstr("the context ended before 1 stream, 1 event\n"));
  EXPECT_EQ(fake.Live(), "");
}

}  // namespace
}  // namespace adjoin
