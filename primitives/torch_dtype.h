// DType to and from LibTorch's ScalarType.
//
//   torch::zeros(shape, ScalarTypeOf(layout.dtype()));
#ifndef ADJOIN_PRIMITIVES_TORCH_DTYPE_H_
#define ADJOIN_PRIMITIVES_TORCH_DTYPE_H_

#include <c10/core/ScalarType.h>

#include "absl/status/statusor.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

c10::ScalarType ScalarTypeOf(DType dtype);
// Errors: kInvalidArgument for a type that Adjoin does not move.
absl::StatusOr<DType> DTypeOf(c10::ScalarType type);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TORCH_DTYPE_H_
