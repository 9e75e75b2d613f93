#include "layers/attention/head_cut.h"

#include <utility>

#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"

namespace adjoin {
namespace {

// HomeOf, but SHARDED cuts the last dim: the first one of a projection's weight counts queries, keys and values.
absl::StatusOr<Layout> HeadHome(const Layer& spec, const Layout& needed, const std::vector<int>& ranks) {
  if (spec.home() != SHARDED || needed.dims() < 3) return HomeOf(spec, needed, needed, ranks);
  ADJOIN_RETURN_IF_ERROR(HomeOf(spec, needed, needed, ranks).status());
  std::vector<int64_t> partition(needed.dims(), 1);
  partition.back() = static_cast<int64_t>(needed.mesh().ranks().size());
  return Layout::Partition(needed.shape(), needed.dtype(), std::move(partition), needed.mesh().ranks());
}

}  // namespace

std::vector<Placement> HeadCut::Placements(int dim) const {
  std::vector<Placement> placements;
  for (const bool cuts : axis) placements.push_back(cuts ? Placement::Split(dim) : Placement::Broadcast());
  return placements;
}

absl::StatusOr<HeadCut> HeadCutOf(const Layout& w, int64_t heads) {
  const int features = w.dims() - 1;
  HeadCut cut{w.mesh(), {}, {}, w.shape()[features] / heads};
  for (int axis = 0; axis < w.mesh().axes(); ++axis) {
    cut.axis.push_back(w.placements()[axis] == Placement::Split(features) && w.mesh().shape()[axis] > 1);
  }
  bool whole = true;
  for (int64_t size : PartSizes(w, features)) {
    whole = whole && size % cut.width == 0;
    cut.sizes.push_back(size / cut.width);
  }
  if (whole) return cut;
  std::vector<Placement> of_heads = w.placements();
  for (Placement& placement : of_heads) {
    placement = placement == Placement::Split(features) ? Placement::Split(0) : Placement::Broadcast();
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout by_head, Layout::Create({heads}, w.dtype(), w.mesh(), std::move(of_heads)));
  cut.sizes = PartSizes(by_head, 0);
  return cut;
}

absl::StatusOr<Layout> WithoutHeads(const Layout& w, const HeadCut& cut, std::vector<int64_t> shape, Placement along) {
  const int features = w.dims() - 1;
  std::vector<Placement> placements = w.placements();
  for (int axis = 0; axis < w.mesh().axes(); ++axis) {
    if (placements[axis] == Placement::Split(features))
      placements[axis] = cut.axis[axis] ? along : Placement::Broadcast();
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < features; ++dim) {
    if (!w.AxesOf(dim).empty() && w.shape()[dim] == shape[dim]) cuts[dim] = PartSizes(w, dim);
  }
  return Layout::Create(std::move(shape), w.dtype(), w.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<ParameterNeed> HeadParameter(const Layer& spec, const HeadCut& cut, DType dtype, std::string role,
                                            std::vector<int64_t> shape, int dim) {
  Layout::Cuts cuts;
  if (cut.cut()) cuts[dim] = cut.sizes;
  ADJOIN_ASSIGN_OR_RETURN(Layout needed,
                          Layout::Create(std::move(shape), dtype, cut.mesh, cut.Placements(dim), std::move(cuts)));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HeadHome(spec, needed, cut.mesh.ranks()));
  return ParameterNeed{.role = std::move(role), .home = std::move(home), .needed = std::move(needed), .fan_in = 1};
}

absl::StatusOr<ParameterNeed> BiasOverHeads(const Layer& spec, const HeadCut& cut, DType dtype, std::string role,
                                            int64_t features) {
  std::vector<int> ranks;
  for (int rank : cut.mesh.ranks()) {
    const std::vector<int64_t> coords = *cut.mesh.CoordsOf(rank);
    bool first = true;
    for (int axis = 0; axis < cut.mesh.axes(); ++axis) first = first && (!cut.axis[axis] || coords[axis] == 0);
    if (first) ranks.push_back(rank);
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout needed, Layout::Replicated({features}, dtype, std::move(ranks)));
  ADJOIN_ASSIGN_OR_RETURN(Layout home, HomeOf(spec, needed, needed, cut.mesh.ranks()));
  ParameterNeed bias{.role = std::move(role), .home = std::move(home), .needed = std::move(needed), .fan_in = 1};
  bias.initial = 0.0;
  return bias;
}

}  // namespace adjoin
