// A tensor whose elements are known when a model is imported.
//
//   ConstantTensor mask = *constants.Evaluate("triu");
//   mask.dtype, mask.shape;                          // DType::kBool, {7, 7}
//   mask.wholes[1];                                  // 1
//   std::string bytes = mask.Bytes(DType::kFloat64);    // as a file of weights has it
#ifndef ADJOIN_IMPORTER_CONSTANTS_CONSTANT_TENSOR_H_
#define ADJOIN_IMPORTER_CONSTANTS_CONSTANT_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "primitives/geometry/dtype.h"

namespace adjoin {

// Elements are row-major. One of the two lists has them: `reals` where the type is floating point, each a value of that
// type; else `wholes`, 0 or 1 of bool.
struct ConstantTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::vector<double> reals;
  std::vector<int64_t> wholes;

  int64_t Elements() const;
  double At(int64_t i) const;  // also of whole numbers
  // Little endian, converted to `type` as PyTorch's `to` does.
  std::string Bytes(DType type) const;
};

// The nearest value of a floating-point type, ties to even; infinity beyond its range.
double RoundedTo(DType dtype, double value);
// The value of a float16, by its bits.
double Float16Value(uint16_t bits);
// What a whole number becomes in a type of whole numbers: its lowest bits, or whether it is not 0.
int64_t WrappedTo(DType dtype, int64_t value);
// A number without its fraction, as PyTorch's conversions have it; INT64_MIN for a NaN and beyond the range.
int64_t Truncated(double value);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_CONSTANTS_CONSTANT_TENSOR_H_
