// Random tensors for movements, other layouts of them in memory, and their cells as numbers and as bits.
//
//   at::Tensor x = RandomTensor(draw, {3, 5}, DType::kBFloat16);
//   movement->Forward(LaidOut(x, /*how=*/2));      // the same numbers, strided
//   SameBits(y, z);                                // -0 differs from 0, a NaN is the same as itself
#ifndef ADJOIN_TESTS_ADJOINT_RANDOM_TENSORS_H_
#define ADJOIN_TESTS_ADJOINT_RANDOM_TENSORS_H_

#include <complex>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/dtype.h"
#include "primitives/geometry/random_cases.h"

namespace adjoin {

// Random numbers of any dtype: normal, or positive integers up to 8 where sums of others would be rounded (no sum of
// them is 0 by chance); bools: as many true as false.
at::Tensor RandomTensor(Draw& draw, const std::vector<int64_t>& shape, DType dtype);
// The same, but few bools are true: of two such tensors about one cell in four is true in both.
at::Tensor RandomCells(Draw& draw, const std::vector<int64_t>& shape, DType dtype);
// Integers of 1 to 3, so that products and sums of some of them are exact in float32.
at::Tensor RandomIntegers(Draw& draw, const std::vector<int64_t>& shape, DType dtype);

// The same numbers in another order of memory, with gaps, from another offset, lazily conjugated or negated: one of
// kLayoutsInMemory ways, as `how` modulo that says, or contiguous where the way does not fit the tensor.
constexpr int kLayoutsInMemory = 6;
at::Tensor LaidOut(const at::Tensor& t, int64_t how);

// A function of each cell's bits, of which 0 gives 0: many results are NaN with a payload, infinite, denormal or -0.
at::Tensor OtherBits(const at::Tensor& t);
// Same shape, dtype and bits of every cell.
bool SameBits(const at::Tensor& a, const at::Tensor& b);

// The cells in row-major order; bools as 0 and 1.
std::vector<std::complex<double>> CellsOf(const at::Tensor& t);
// The rounding error of float64, of float32 and of the parts of complex numbers; 0 for types whose random numbers are
// never rounded.
double RoundingOf(DType dtype);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_RANDOM_TENSORS_H_
