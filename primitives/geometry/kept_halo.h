// Padded parts that stay padded: where a rank's part of a tensor is in its padded tensor, and which cells of the ring
// around it are whose.
//
//   KeptHalo halo = *KeptHalo::Create(x_layout, {{2, {.lo = 1, .hi = 1}}, {3, {.lo = 1, .hi = 1}}});
//   halo.PaddedShape(rank);              // the part's extents, plus lo + hi in these dims
//   halo.InteriorOf(rank);               // the part, in the padded tensor
//   MovementPlan::Build(halo.interior(), halo.ring(), rank);    // what refreshes the ring
//
// The ring of a part [p, q) in a dim are the indices [p - lo, p) and [q, q + hi). The boundary resolves those that are
// outside of the tensor, as Window does; with zeros they belong to no cell: these are the caller's (`outside`). A rank
// without cells of x has none in its padded tensor, either.
#ifndef ADJOIN_PRIMITIVES_GEOMETRY_KEPT_HALO_H_
#define ADJOIN_PRIMITIVES_GEOMETRY_KEPT_HALO_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"

namespace adjoin {

// Cells of the ring before and after a part, in one dim.
struct HaloWidth {
  int64_t lo = 0;
  int64_t hi = 0;
  Boundary boundary = Boundary::kZeros;
};

class KeptHalo {
 public:
  // `widths` by tensor dim; the other dims have no ring.
  // Errors: kInvalidArgument (a dim that x does not have; a width below 0 or above 2^31; one that is wider than its
  // boundary allows: see Window::OutputSize; a dim without cells).
  static absl::StatusOr<KeptHalo> Create(const Layout& x, const std::map<int, HaloWidth>& widths);

  // The ends of the movement that refreshes: local tensors are the padded ones on both sides, in which `interior`
  // covers each rank's part and `ring` the ring's cells that have an index.
  const Distribution& interior() const { return interior_; }
  const Distribution& ring() const { return ring_; }
  // Both: every cell that has an index.
  const Distribution& padded() const { return padded_; }

  const std::vector<int64_t>& PaddedShape(int rank) const { return padded_.View(rank).shape; }
  // Where the part is in the padded tensor.
  Region InteriorOf(int rank) const;
  // The cells of the padded tensor that have no index, as boxes that do not meet.
  std::vector<Region> OutsideOf(int rank) const;

 private:
  KeptHalo(Layout x, std::map<int, HaloWidth> widths, Distribution interior, Distribution ring, Distribution padded);

  Layout x_;
  std::map<int, HaloWidth> widths_;
  Distribution interior_;
  Distribution ring_;
  Distribution padded_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_GEOMETRY_KEPT_HALO_H_
