// ReduceScatter: adds a tensor up along axes of the mesh and leaves each rank its part of the sum. Its adjoint is
// AllGather.
//
//   auto part = *ReduceScatter::Create(&communicator, *Layout::Replicated({10}, dtype, {0, 1, 2})->Dual(),
//                                      *Layout::Partition({10}, dtype, {3}, {0, 1, 2}), {.id = 9, .name = "fc1.y"});
//
// x and y have the same mesh. An axis that is P in x may be S in y; the rest as AllGather says, with x and y exchanged.
// Additions go in an order that the two layouts fix: the same bits in every run.
#ifndef ADJOIN_PRIMITIVES_REDUCE_SCATTER_H_
#define ADJOIN_PRIMITIVES_REDUCE_SCATTER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct ReduceScatter {
  // Errors: kInvalidArgument where x's dual is not y's gathered (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_REDUCE_SCATTER_H_
