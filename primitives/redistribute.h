// Redistribute: a tensor from any layout to any other, on the same mesh or another.
//
//   auto gather = *Redistribute::Create(&communicator, split, replicated, {.id = 3, .name = "fc1.w"});
//   torch::Tensor w = gather->Apply(w_local, tape);
//
// Split to split is repartition (transpose, shuffle, all-to-all), scatter and gather; split to broadcast an all-gather;
// partial to split a reduce-scatter. Its adjoint goes from `to`'s dual layout to `from`'s.
#ifndef ADJOIN_PRIMITIVES_REDISTRIBUTE_H_
#define ADJOIN_PRIMITIVES_REDISTRIBUTE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"

namespace adjoin {

struct Redistribute {
  // Errors: as Movement::Create; kInvalidArgument where the layouts differ in shape or dtype.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& from,
                                                          const Layout& to, Movement::Options options);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_REDISTRIBUTE_H_
