#include "primitives/to_device.h"

namespace adjoin {

at::Tensor ToDevice(const at::Tensor& host, c10::Device device) {
  if (device.is_cpu() || !host.defined()) return host;
  const at::Tensor source = device.is_cuda() && host.numel() > 0 ? host.pin_memory() : host;
  return source.to(at::TensorOptions().device(device), /*non_blocking=*/true);
}

}  // namespace adjoin
