// A tensor that is moved as a whole: its memory, and what it is called in messages.
//
//   communicator->Execute(execution, plan, TensorBuffer(x, memory.kind()), TensorBuffer(y, memory.kind()));
#ifndef ADJOIN_PRIMITIVES_MOVED_TENSOR_H_
#define ADJOIN_PRIMITIVES_MOVED_TENSOR_H_

#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "primitives/device/device.h"
#include "primitives/transport/buffer.h"

namespace adjoin {

// All bytes of a tensor that is contiguous, in memory of this kind. Keeps the tensor.
Buffer TensorBuffer(const at::Tensor& tensor, MemoryKind kind);

// "Float [2, 3]"
std::string TensorText(c10::ScalarType type, at::IntArrayRef shape);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_MOVED_TENSOR_H_
