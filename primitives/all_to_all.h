// AllToAll: changes the dim that one mesh axis splits. Its adjoint is the AllToAll back.
//
//   // 8 rows on 4 ranks, two each -> 12 columns, three each
//   const Mesh mesh = *Mesh::Create({4});
//   auto turn = *AllToAll::Create(&communicator, *Layout::Create({8, 12}, dtype, mesh, {Placement::Split(0)}),
//                                 *Layout::Create({8, 12}, dtype, mesh, {Placement::Split(1)}), {.id = 10, .name =
//                                 "x"});
//
// x and y have the same mesh, and agree on every axis of size above 1 but one, which is S(i) in x and S(j) in y. That
// axis is the innermost of those that split i in x and j in y, and the cuts are the same but for its own: then data
// goes only between ranks along it. What needs more is a Redistribute.
#ifndef ADJOIN_PRIMITIVES_ALL_TO_ALL_H_
#define ADJOIN_PRIMITIVES_ALL_TO_ALL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct AllToAll {
  // Errors: kInvalidArgument where more than one axis changes, or data would leave it (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
  // OK if `y` is `x` with one axis split along another dim.
  static absl::Status Check(const Layout& x, const Layout& y);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_ALL_TO_ALL_H_
