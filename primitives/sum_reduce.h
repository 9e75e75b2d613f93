// SumReduce: adds a tensor up along the axes of a mesh, NumPy-style. Its adjoint is Broadcast.
//
//   // y on ranks 0..2, each with a part of the sum -> x on rank 0
//   auto sum = *SumReduce::Create(&communicator, *Layout::Replicated(shape, dtype, {0, 1, 2})->Dual(),
//                                 Layout::Owner(shape, dtype, 0), {.id = 4, .name = "fc1.y"});
//
// The axes that disappear are P in `x` and of size 1 in `y`; the rest as Broadcast says, with the two exchanged.
// Additions go in an order that the two layouts fix: the same bits in every run.
#ifndef ADJOIN_PRIMITIVES_SUM_REDUCE_H_
#define ADJOIN_PRIMITIVES_SUM_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct SumReduce {
  // Errors: kInvalidArgument where x's dual is not y's repeated (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_SUM_REDUCE_H_
