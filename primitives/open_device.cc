#include "primitives/open_device.h"

#include <utility>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "primitives/device/cuda_device.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/tensor_device.h"

namespace adjoin {

absl::StatusOr<OpenedDevice> OpenDevice(const std::string& name) {
  OpenedDevice opened;
  if (name == "cpu") {
    opened.memory = std::make_shared<HostMemory>();
    return opened;
  }
  absl::string_view number = name;
  int index = 0;
  const bool cuda = absl::ConsumePrefix(&number, "cuda") &&
                    (number.empty() || (absl::ConsumePrefix(&number, ":") && absl::SimpleAtoi(number, &index)));
  if (!cuda || index < 0 || index > 127) {
    return absl::InvalidArgumentError(absl::StrCat("there is no device \"", name, "\": cpu, cuda or cuda:N"));
  }
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) {
    return absl::FailedPreconditionError(
        absl::StrCat("device \"", name, "\": this program runs with a LibTorch that was built without CUDA"));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::Open());
  ADJOIN_ASSIGN_OR_RETURN(opened.device, CudaDevice::Open(std::move(driver), index));
  opened.tensors = c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
  opened.memory = std::make_shared<TensorDeviceMemory>(opened.tensors, opened.device);
  return opened;
}

}  // namespace adjoin
