// AllMaxReduce and AllMinReduce: the largest or smallest of a tensor's partials, on all ranks that hold one.
//
//   const Layout x = *Layout::Create({8}, DType::kFloat32, *Mesh::Create({4}), {Placement::Partial(ReduceOp::kMax)});
//   auto max = *AllMaxReduce::Create(&communicator, x, {.id = 5, .name = "row maximum"});
//   torch::Tensor largest = max->Apply(x_local, tape);     // torch.amax over the four tensors, with its gradient
//
// They are redistributions from P(max) or P(min) (movement.h says what the gradient is, and which ids it takes); to any
// other layout use Redistribute.
#ifndef ADJOIN_PRIMITIVES_EXTREME_REDUCE_H_
#define ADJOIN_PRIMITIVES_EXTREME_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct AllMaxReduce {
  // Errors: as OutputLayout and Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x,
                                                          Movement::Options options);
  // The layout of the result: `x` with every P(max) replaced by B. Errors: kInvalidArgument for another partial.
  static absl::StatusOr<Layout> OutputLayout(const Layout& x);
};

struct AllMinReduce {
  // Errors: as OutputLayout and Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x,
                                                          Movement::Options options);
  // The layout of the result: `x` with every P(min) replaced by B. Errors: kInvalidArgument for another partial.
  static absl::StatusOr<Layout> OutputLayout(const Layout& x);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_EXTREME_REDUCE_H_
