// Gather: puts the parts of a split tensor together on one rank. Its adjoint is Scatter.
//
//   auto whole = *Gather::Create(&communicator, *Layout::Partition({10}, dtype, {3}, {0, 1, 2}), Layout::Owner({10},
//   dtype, 0),
//                                {.id = 7, .name = "y"});
//
// What Scatter says, with x and y exchanged.
#ifndef ADJOIN_PRIMITIVES_GATHER_H_
#define ADJOIN_PRIMITIVES_GATHER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct Gather {
  // Errors: kInvalidArgument where x is not split, or y not on one rank (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GATHER_H_
