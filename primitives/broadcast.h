// Broadcast: copies a tensor along the axes of a mesh, NumPy-style. Its adjoint is SumReduce.
//
//   // x on one rank -> y on all of them
//   auto copy = *Broadcast::Create(&communicator, Layout::Owner(shape, dtype, 0), *Layout::Replicated(shape, dtype, {0,
//   1, 2}),
//                                  {.id = 2, .name = "fc1.b"});
//
// x and y have the same number of mesh axes, or x is on one rank. An axis along which x's mesh has size 1 and y's more
// must be B in y; on every other axis the two agree in size and placement, and their cuts are the same.
#ifndef ADJOIN_PRIMITIVES_BROADCAST_H_
#define ADJOIN_PRIMITIVES_BROADCAST_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct Broadcast {
  // Errors: kInvalidArgument where y is not x repeated (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
  // OK if `y` is `x` repeated along axes of the mesh.
  static absl::Status Check(const Layout& x, const Layout& y);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_BROADCAST_H_
