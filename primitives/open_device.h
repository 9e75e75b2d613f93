// The device that a rank's tensors are on, by its LibTorch name.
//
//   ADJOIN_ASSIGN_OR_RETURN(const OpenedDevice opened, OpenDevice("cuda:0"));
//   options.device = opened.device;                                        // TransportOptions
//   Communicator communicator(transport.get(), opened.memory.get(), {});
//   at::Tensor x = at::zeros(shape, opened.tensors);
#ifndef ADJOIN_PRIMITIVES_OPEN_DEVICE_H_
#define ADJOIN_PRIMITIVES_OPEN_DEVICE_H_

#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "primitives/comm/local_memory.h"
#include "primitives/device/device.h"

namespace adjoin {

struct OpenedDevice {
  c10::Device tensors = c10::Device(c10::kCPU);
  std::shared_ptr<Device> device;  // null for the CPU
  std::shared_ptr<LocalMemory> memory;
};

// "cpu", "cuda" (the first of those that the process sees) or "cuda:N".
// Errors: kInvalidArgument (another name), kFailedPrecondition (this LibTorch was built without CUDA), as
// CudaDriver::Open and CudaDevice::Open.
absl::StatusOr<OpenedDevice> OpenDevice(const std::string& name);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_OPEN_DEVICE_H_
