// Scatter: gives each rank its part of a tensor that one rank holds. Its adjoint is Gather.
//
//   auto parts = *Scatter::Create(&communicator, Layout::Owner({10}, dtype, 0), *Layout::Partition({10}, dtype, {3},
//   {0, 1, 2}),
//                                 {.id = 6, .name = "x"});
//
// One rank holds x. In y one rank holds each cell: each axis of size above 1 is S, with any cuts, on any mesh.
#ifndef ADJOIN_PRIMITIVES_SCATTER_H_
#define ADJOIN_PRIMITIVES_SCATTER_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct Scatter {
  // Errors: kInvalidArgument where x is not on one rank, or y not split (says why); as Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                          Movement::Options options);
  // OK if one rank holds `x` and `y` is the same tensor split.
  static absl::Status Check(const Layout& x, const Layout& y);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_SCATTER_H_
