// The gathered global tensor behind the ranks' local ones: what a layout's cells must be of it, without any schedule.
//
//   at::Tensor global = FillSource(draw, x_layout, ranks, c);      // c.valid and c.x
//   FillSums(y_layout, ranks, c);                                     // c.sums_with
#ifndef ADJOIN_TESTS_ADJOINT_GATHERED_H_
#define ADJOIN_TESTS_ADJOINT_GATHERED_H_

#include <ATen/core/Tensor.h>

#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "tests/adjoint/movement_case.h"

namespace adjoin {

// A copy of a box of a global tensor.
at::Tensor Slice(at::Tensor global, const Box& box);
// What a rank outside the mesh holds.
at::Tensor Outside(int dims, DType dtype);
// Fills in the source's side of a case, its `exact` and `copies`, and returns the global tensor.
at::Tensor FillSource(Draw& draw, const Layout& from, int ranks, MovementCase& c);
// Which ranks' cells add up to one part of `to`.
void FillSums(const Layout& to, int ranks, MovementCase& c);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ADJOINT_GATHERED_H_
