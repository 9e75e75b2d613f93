// Element types, without LibTorch.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_DTYPE_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_DTYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adjoin {

enum class DType { kFloat64, kFloat32, kBFloat16, kFloat16, kComplex64, kComplex128, kInt64, kInt32, kUInt8, kBool };

// Bytes per element.
int64_t SizeOf(DType dtype);
// PyTorch's names: "float64", "float32", "bfloat16", "float16", "complex64", "complex128", "int64", "int32", "uint8",
// "bool".
std::string ToString(DType dtype);
// Errors: kInvalidArgument lists the known names.
absl::StatusOr<DType> ParseDType(absl::string_view name);
bool IsFloatingPoint(DType dtype);  // float64 to complex128: what a gradient can have

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_DTYPE_H_
