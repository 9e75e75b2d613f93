#include "layers/plan/layout_like.h"

#include <utility>

#include "layers/plan/rule_checks.h"

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

bool SameButFor(const std::set<int>& dims, const Layout& a, const Layout& b) {
  if (a.mesh() != b.mesh() || a.placements() != b.placements() || a.shape() != b.shape()) return false;
  for (int dim = 0; dim < a.dims(); ++dim) {
    if (dims.count(dim) == 0 && a.Boundaries(dim) != b.Boundaries(dim)) return false;
  }
  return true;
}

}  // namespace adjoin
