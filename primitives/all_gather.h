// AllGather: puts the parts of a split tensor together on every rank along axes of the mesh. Its adjoint is
// ReduceScatter.
//
//   auto whole = *AllGather::Create(&communicator, *Layout::Partition({10}, dtype, {3}, {0, 1, 2}),
//                                   *Layout::Replicated({10}, dtype, {0, 1, 2}), {.id = 8, .name = "fc1.w"});
//
// x and y have the same mesh. An axis that is S in x may be B in y; every other axis of size above 1 agrees. Of several
// axes that split one dim the inner ones are gathered first, and y's cuts are x's without those that disappear: each
// rank then gets just what the ranks along the gathered axes hold.
#ifndef ADJOIN_PRIMITIVES_ALL_GATHER_H_
#define ADJOIN_PRIMITIVES_ALL_GATHER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct AllGather {
  // Errors: kInvalidArgument where y is not x gathered (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
  // OK if `y` is `x` gathered along axes of the mesh.
  static absl::Status Check(const Layout& x, const Layout& y);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_ALL_GATHER_H_
