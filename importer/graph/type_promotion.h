// The type in which PyTorch computes with several operands.
//
//   PromotedType({{DType::kInt64, TypedOperand::kTensor}, {DType::kFloat32, TypedOperand::kNumber}});   // float32
#ifndef ADJOIN_IMPORTER_GRAPH_TYPE_PROMOTION_H_
#define ADJOIN_IMPORTER_GRAPH_TYPE_PROMOTION_H_

#include <vector>

#include "primitives/geometry/dtype.h"

namespace adjoin {

struct TypedOperand {
  enum What { kTensor, kTensorWithoutDims, kNumber };  // each counts for less than the one before it
  DType dtype;                                         // of a number: bool, int64, or float32, PyTorch's default
  What what = kTensor;
};

// That of the tensors with dims, but for tensors without dims, and then numbers, of a higher kind (bool, whole,
// floating point); float32 of no operands. Source: c10/core/ScalarType.h and update_result_type_state of
// ATen/native/TypeProperties.cpp.
DType PromotedType(const std::vector<TypedOperand>& operands);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_GRAPH_TYPE_PROMOTION_H_
