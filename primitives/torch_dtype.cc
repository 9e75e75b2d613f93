#include "primitives/torch_dtype.h"

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr struct {
  DType dtype;
  c10::ScalarType type;
} kTypes[] = {
    {DType::kFloat64, c10::ScalarType::Double},
    {DType::kFloat32, c10::ScalarType::Float},
    {DType::kBFloat16, c10::ScalarType::BFloat16},
    {DType::kFloat16, c10::ScalarType::Half},
    {DType::kComplex64, c10::ScalarType::ComplexFloat},
    {DType::kComplex128, c10::ScalarType::ComplexDouble},
    {DType::kInt64, c10::ScalarType::Long},
    {DType::kInt32, c10::ScalarType::Int},
    {DType::kUInt8, c10::ScalarType::Byte},
    {DType::kBool, c10::ScalarType::Bool},
};

}  // namespace

c10::ScalarType ScalarTypeOf(DType dtype) {
  for (const auto& pair : kTypes) {
    if (pair.dtype == dtype) return pair.type;
  }
  return c10::ScalarType::Undefined;
}

absl::StatusOr<DType> DTypeOf(c10::ScalarType type) {
  for (const auto& pair : kTypes) {
    if (pair.type == type) return pair.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("tensors of type ", c10::toString(type), " cannot be moved"));
}

}  // namespace adjoin
