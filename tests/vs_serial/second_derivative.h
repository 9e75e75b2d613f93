// The gradient of a gradient on threads as ranks, for layers that say that they can be differentiated twice.
//
//   MakeFieldsDifferentiable(plan, "train");
//   auto parts = SecondDerivative(plan, {.x = x, .u = u, .v = v, .parameters = {{"y.weight", w}}}, seed);
//   // of rank r, its part of d <d<y, u>/dx, v>/dx
//   at::allclose((*parts)[r], PartOf(expected, layout_of_x, r));
#ifndef ADJOIN_TESTS_VS_SERIAL_SECOND_DERIVATIVE_H_
#define ADJOIN_TESTS_VS_SERIAL_SECOND_DERIVATIVE_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {

// Whole tensors, float64.
struct TwiceInput {
  at::Tensor x;             // the field "x"
  at::Tensor u;             // like layer "y"
  at::Tensor v;             // like x
  Tensors parameters = {};  // by name; zeros where absent
};

// `plan`: a training job whose first layer "y" reads the field "x", without copies of its parts. Zeros where the
// gradient does not depend on x. Errors: of whichever rank failed first.
absl::StatusOr<std::vector<at::Tensor>> SecondDerivative(const Plan& plan, const TwiceInput& input, uint64_t seed);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_SECOND_DERIVATIVE_H_
