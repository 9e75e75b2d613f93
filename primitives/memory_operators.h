// Linear operators on the memory of one rank, with their adjoints: allocate, deallocate, clear, add, copy and move.
//
//   const Region a{{0, 0}, {2, 3}}, b{{2, 0}, {2, 3}};   // rows 0, 1 and rows 2, 3 of a 4 x 3 tensor
//   at::Tensor y = memory::Copy(x, a, b);             // b = a; the gradient of b is added to that of a, then cleared
//   at::Tensor z = memory::Allocate(x, 0, 4, 2);      // two rows of zeros at the end
//
//   operator                forward        adjoint
//   Allocate                zeros go in    Deallocate
//   Clear(b)                b = 0          Clear(b)
//   Add(a, b)               b += a         Add(b, a)
//   Copy(a, b)              b = a          a += b; b = 0
//   Move(a, b)              b = a; a = 0   Move(b, a)
//
// Source: Hewett & Grady, "A Linear Algebraic Approach to Model Parallelism in Deep Learning", arXiv 2006.03108.
//
// A block is a box of cells. Two blocks of one operator have the same size and no cell in common. Out of place: inputs
// may be strided and are never modified, results are freshly owned, and every operator is recorded by autograd,
// gradients of gradients included. In place: `x` is changed, and nothing recorded. Any dtype and device; any thread.
//
// Throw StatusException: kInvalidArgument for an undefined tensor, a block outside the tensor, blocks that differ in
// size or meet, and, in place, for a tensor that autograd records.
#ifndef ADJOIN_PRIMITIVES_MEMORY_OPERATORS_H_
#define ADJOIN_PRIMITIVES_MEMORY_OPERATORS_H_

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {
namespace memory {

// `x` with `size` more indices of `dim`, zeros, that begin at `at`, 0 <= at <= x.size(dim).
at::Tensor Allocate(const at::Tensor& x, int64_t dim, int64_t at, int64_t size);
// `x` without the indices [at, at + size) of `dim`.
at::Tensor Deallocate(const at::Tensor& x, int64_t dim, int64_t at, int64_t size);

at::Tensor Clear(const at::Tensor& x, const Region& block);
at::Tensor Add(const at::Tensor& x, const Region& a, const Region& b);
at::Tensor Copy(const at::Tensor& x, const Region& a, const Region& b);
at::Tensor Move(const at::Tensor& x, const Region& a, const Region& b);

void ClearInPlace(at::Tensor& x, const Region& block);
void AddInPlace(at::Tensor& x, const Region& a, const Region& b);
void CopyInPlace(at::Tensor& x, const Region& a, const Region& b);
void MoveInPlace(at::Tensor& x, const Region& a, const Region& b);

}  // namespace memory
}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_MEMORY_OPERATORS_H_
