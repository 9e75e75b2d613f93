#include "importer/graph/type_promotion.h"

#include <optional>

namespace adjoin {
namespace {

// bool, whole numbers, floating point.
int KindOfType(DType dtype) { return dtype == DType::kBool ? 0 : IsFloatingPoint(dtype) ? 2 : 1; }

int OrderOf(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 0;
    case DType::kUInt8: return 1;
    case DType::kInt32: return 2;
    case DType::kInt64: return 3;
    case DType::kFloat16:
    case DType::kBFloat16: return 4;
    case DType::kFloat32: return 5;
    default: return 6;
  }
}

DType Wider(DType a, DType b) {
  if (a != b && OrderOf(a) == OrderOf(b)) return DType::kFloat32;  // float16 and bfloat16
  return OrderOf(a) >= OrderOf(b) ? a : b;
}

}  // namespace

DType PromotedType(const std::vector<TypedOperand>& operands) {
  std::optional<DType> result;
  for (const auto what : {TypedOperand::kTensor, TypedOperand::kTensorWithoutDims, TypedOperand::kNumber}) {
    std::optional<DType> widest;
    for (const TypedOperand& operand : operands) {
      if (operand.what == what) widest = widest.has_value() ? Wider(*widest, operand.dtype) : operand.dtype;
    }
    if (widest.has_value() && (!result.has_value() || KindOfType(*widest) > KindOfType(*result))) result = widest;
  }
  return result.value_or(DType::kFloat32);
}

}  // namespace adjoin
