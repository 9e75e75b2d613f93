// AllSumReduce: adds a tensor up along every partial axis of its mesh and gives the sum to all of them. Self-adjoint.
//
//   auto sum = *AllSumReduce::Create(&communicator, *Layout::Replicated(shape, dtype, {0, 1, 2})->Dual(),
//                                    {.id = 5, .name = "fc1.w gradient"});
//
// Every rank gets the same bits, in every run.
#ifndef ADJOIN_PRIMITIVES_ALL_SUM_REDUCE_H_
#define ADJOIN_PRIMITIVES_ALL_SUM_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct AllSumReduce {
  // Errors: as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x,
                                                          Movement::Options options);
  // The layout of the result: `x` with every P replaced by B.
  static absl::StatusOr<Layout> OutputLayout(const Layout& x);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_ALL_SUM_REDUCE_H_
