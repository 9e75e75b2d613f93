#include "layers/rules/layout_like.h"

#include <utility>

namespace adjoin {

absl::StatusOr<Layout> LayoutLike(const Layout& x, std::vector<int64_t> shape, const std::set<int>& even,
                                  const std::set<int>& whole, Placement instead) {
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement.kind == Placement::Kind::kSplit && whole.count(placement.dim) > 0) placement = instead;
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (even.count(dim) == 0 && whole.count(dim) == 0 && !x.AxesOf(dim).empty()) cuts[dim] = PartSizes(x, dim);
  }
  return Layout::Create(std::move(shape), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<Layout> PerChannel(const Layout& x, DType dtype) {
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement == Placement::Split(1)) {
      placement = Placement::Split(0);
      cuts[0] = PartSizes(x, 1);
    } else {
      placement = Placement::Broadcast();
    }
  }
  return Layout::Create({x.shape()[1]}, dtype, x.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<Layout> DimsFrom(int first, const Layout& x, DType dtype) {
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit || placement.dim < first) {
      placement = Placement::Broadcast();
      continue;
    }
    cuts[placement.dim - first] = PartSizes(x, placement.dim);
    placement.dim -= first;
  }
  return Layout::Create({x.shape().begin() + first, x.shape().end()}, dtype, x.mesh(), std::move(placements),
                        std::move(cuts));
}

bool SameButFor(const std::set<int>& dims, const Layout& a, const Layout& b) {
  if (a.mesh() != b.mesh() || a.placements() != b.placements() || a.shape() != b.shape()) return false;
  for (int dim = 0; dim < a.dims(); ++dim) {
    if (dims.count(dim) == 0 && a.Boundaries(dim) != b.Boundaries(dim)) return false;
  }
  return true;
}

}  // namespace adjoin
