#include "primitives/all_to_all.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/all_gather.h"
#include "primitives/redistribute.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

absl::Status RefuseExchange(const Layout& x, const Layout& y, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("all-to-all from ", x.ToString(), " to ", y.ToString(), ": ", why));
}

// `x` gathered along `axis`; the dim that this axis split there gets the parts that it has in `y`.
absl::StatusOr<Layout> Gathered(const Layout& x, const Layout& y, int axis) {
  std::vector<Placement> placements = x.placements();
  const int changed = placements[axis].dim;
  placements[axis] = Placement::Broadcast();
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    bool split = false;
    for (const Placement& placement : placements) split = split || placement == Placement::Split(dim);
    if (split) cuts[dim] = PartSizes(dim == changed ? y : x, dim);
  }
  return Layout::Create(x.shape(), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::Status AllToAll::Check(const Layout& x, const Layout& y) {
  if (x.shape() != y.shape() || x.dtype() != y.dtype()) return RefuseExchange(x, y, "shape or dtype differ");
  if (x.mesh() != y.mesh()) return RefuseExchange(x, y, "the meshes differ");
  int changed = -1;
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    const Placement from = x.placements()[axis];
    const Placement to = y.placements()[axis];
    if (x.mesh().shape()[axis] == 1 || from == to) continue;
    if (from.kind != Kind::kSplit || to.kind != Kind::kSplit) {
      return RefuseExchange(
          x, y,
          absl::StrCat("axis ", axis, " goes from ", from.ToString(), " to ", to.ToString(), ", expected two splits"));
    }
    if (changed >= 0)
      return RefuseExchange(x, y, absl::StrCat("axes ", changed, " and ", axis, " change, expected one"));
    changed = axis;
  }
  if (changed < 0) {
    for (int dim = 0; dim < x.dims(); ++dim) {
      if (x.Boundaries(dim) != y.Boundaries(dim))
        return RefuseExchange(x, y, absl::StrCat("dim ", dim, " is cut differently"));
    }
    return absl::OkStatus();
  }
  // Along that axis both hold together what an all-gather would give each rank: no data leaves it.
  ADJOIN_ASSIGN_OR_RETURN(const Layout together, Gathered(x, y, changed));
  for (const Layout* side : {&x, &y}) {
    if (const absl::Status status = AllGather::Check(*side, together); !status.ok()) {
      return RefuseExchange(x, y, absl::StrCat("data would leave axis ", changed, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Movement>> AllToAll::Create(Communicator* communicator, const Layout& x, const Layout& y,
                                                           Movement::Options options) {
  ADJOIN_RETURN_IF_ERROR(Check(x, y));
  return Redistribute::Create(communicator, x, y, std::move(options));
}

}  // namespace adjoin
