// HaloExchange: gives each rank what its outputs read, neighbours' cells and boundary included.
//
//   Window w = *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1});
//   auto halo = *HaloExchange::Create(&communicator, x_layout, {{2, w}, {3, w}}, y_layout, {.id = 1, .name =
//   "conv1.x"}); torch::Tensor padded = halo->Apply(x, tape);   // then the local kernel without padding
//
// Corners, several neighbours, unused own cells and any cuts of input and output are one exchange. The adjoint adds
// what overlaps into the cells' owners. Boundaries reflect and replicate are fetched, not yet repeated: see
// Window::IndexMap in window.h.
#ifndef ADJOIN_PRIMITIVES_HALO_EXCHANGE_H_
#define ADJOIN_PRIMITIVES_HALO_EXCHANGE_H_

#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/movement.h"

namespace adjoin {

struct HaloExchange {
  // `readings` by tensor dim. `options.fill` is the value of cells on a zero boundary (minus infinity for max pooling).
  // Errors: as Distribution::Reads and Movement::Create.
  static absl::StatusOr<std::shared_ptr<Movement>> Create(Communicator* communicator, const Layout& x,
                                                          const std::map<int, Reading>& readings, const Layout& y,
                                                          Movement::Options options);
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_HALO_EXCHANGE_H_
