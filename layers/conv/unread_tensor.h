// A tensor of which a kernel needs the shape and nobody reads a cell.
//
//   ConvolveBackward(of_result, UnreadTensor(shape, options), weight, geometry, {true, false, false});
//
// On a CPU it takes no memory, and its cells are 0.
#ifndef ADJOIN_LAYERS_CONV_UNREAD_TENSOR_H_
#define ADJOIN_LAYERS_CONV_UNREAD_TENSOR_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace adjoin {

// Contiguous. Nobody may write to it: on a CPU its pages are read-only.
at::Tensor UnreadTensor(const std::vector<int64_t>& shape, const at::TensorOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_UNREAD_TENSOR_H_
