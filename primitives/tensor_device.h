// LibTorch's devices and streams as the engine sees them (primitives/device), and the memory of their tensors.
//
//   TensorDeviceMemory memory(at::Device(at::kCUDA, 0), device);       // device: CudaDevice::Open(driver, 0)
//   Communicator communicator(transport.get(), &memory, {});           // transport: TransportOptions::device = device
//
// Only LibTorch's interfaces that name no device are used, so one binary serves LibTorch with CUDA and without.
#ifndef ADJOIN_PRIMITIVES_TENSOR_DEVICE_H_
#define ADJOIN_PRIMITIVES_TENSOR_DEVICE_H_

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/local_memory.h"
#include "primitives/device/device.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

// Whose memory the tensors of a device are in: kCuda for CUDA, kFakeDevice for PrivateUse1, which the tests' backend
// is, kHost for the CPU. Errors: kUnimplemented for others.
absl::StatusOr<MemoryKind> MemoryKindOf(c10::Device device);

// Memory of a LibTorch device. Its stream is LibTorch's current one, in the thread that calls (before LibTorch 2.6,
// which does not tell of others, the default one); copies and sums are LibTorch's own operators there, one for each box
// of cells. Threads: any, one at a time.
class TensorDeviceMemory : public LocalMemory {
 public:
  // `device` is the same device as `tensors`.
  TensorDeviceMemory(c10::Device tensors, std::shared_ptr<Device> device);

  MemoryKind kind() const override { return device_->kind(); }
  c10::Device tensor_device() const { return tensors_; }
  std::shared_ptr<DeviceStream> stream() const override;
  absl::StatusOr<Buffer> Allocate(int64_t bytes) override;
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override;
  absl::Status Combine(ReduceOp op, DType dtype, const void* from, const void* with, void* onto,
                       const Rows& rows) override;
  absl::Status Move(std::optional<ReduceOp> op, DType dtype, const void* from, void* onto, const Cells& cells) override;

 private:
  at::Tensor View(const void* data, at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type) const;

  const c10::Device tensors_;
  const std::shared_ptr<Device> device_;
};

// The device of the tensors that a communicator moves.
c10::Device TensorDeviceOf(const LocalMemory& memory);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TENSOR_DEVICE_H_
