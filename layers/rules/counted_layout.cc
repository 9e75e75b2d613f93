#include "layers/rules/counted_layout.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

absl::StatusOr<Layout> FirstCopy(const Layout& layout) {
  if (!layout.HasKind(Placement::Kind::kBroadcast)) return layout;
  std::vector<int64_t> shape = layout.mesh().shape();
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if (layout.placements()[axis].kind == Placement::Kind::kBroadcast) shape[axis] = 1;
  }
  std::vector<int> ranks;
  for (int rank : layout.mesh().ranks()) {
    const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
    bool first = true;
    for (size_t axis = 0; axis < shape.size(); ++axis) first = first && coords[axis] < shape[axis];
    if (first) ranks.push_back(rank);
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (!layout.AxesOf(dim).empty()) cuts[dim] = PartSizes(layout, dim);
  }
  ADJOIN_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create(std::move(shape), std::move(ranks)));
  return Layout::Create(layout.shape(), layout.dtype(), mesh.WithWeights(layout.mesh().weights()), layout.placements(),
                        std::move(cuts));
}

absl::StatusOr<Layout> WholeDim(const Layout& layout, int whole) {
  if (layout.Parts(whole) == 1) return layout;
  int divided = whole == 0 ? 1 : 0;
  const auto local = [&](int dim) { return layout.shape()[dim] / layout.Parts(dim); };
  for (int dim = divided + 1; dim < layout.dims(); ++dim) {
    if (dim != whole && local(dim) > local(divided)) divided = dim;
  }
  const std::vector<int> sharing = layout.AxesOf(whole);
  std::vector<int> order;  // the sharing axes go last, so that they divide each part
  std::vector<Placement> placements;
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if (layout.placements()[axis] == Placement::Split(whole)) continue;
    order.push_back(axis);
    placements.push_back(layout.placements()[axis]);
  }
  order.insert(order.end(), sharing.begin(), sharing.end());
  placements.resize(order.size(), Placement::Split(divided));

  std::vector<int64_t> shape;
  for (int axis : order) shape.push_back(layout.mesh().shape()[axis]);
  std::vector<int> ranks = layout.mesh().ranks();
  const auto coords_in_order = [&](int rank) {
    const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
    std::vector<int64_t> ordered;
    for (int axis : order) ordered.push_back(coords[axis]);
    return ordered;
  };
  std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return coords_in_order(a) < coords_in_order(b); });
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (dim != whole && !layout.AxesOf(dim).empty()) cuts[dim] = PartSizes(layout, dim);
  }
  cuts[divided].clear();
  for (int64_t size : PartSizes(layout, divided)) {
    for (int64_t part : BalancedSizes(size, layout.Parts(whole))) cuts[divided].push_back(part);
  }
  ADJOIN_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create(std::move(shape), std::move(ranks)));
  return Layout::Create(layout.shape(), layout.dtype(), mesh.WithWeights(layout.mesh().weights()),
                        std::move(placements), std::move(cuts));
}

}  // namespace adjoin
