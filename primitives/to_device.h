// Tensors that the host has made, on a device: batches, tables, random numbers.
//
//   const at::Tensor kept = ToDevice(PlacedKept(stream, first_sample, shape, box, p), x.device());
#ifndef ADJOIN_PRIMITIVES_TO_DEVICE_H_
#define ADJOIN_PRIMITIVES_TO_DEVICE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace adjoin {

// Returns `host`, a tensor on the CPU without a graph, on `device`: itself where that is the CPU, else a copy in the
// order of the device's current stream, for which the host does not wait. To CUDA it goes through pinned memory, since
// a copy from other memory waits for the stream. `host` may be dropped at once, and must not be written to.
at::Tensor ToDevice(const at::Tensor& host, c10::Device device);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TO_DEVICE_H_
