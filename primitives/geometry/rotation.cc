#include "primitives/geometry/rotation.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

absl::StatusOr<Layout> RotatedParts(const Layout& layout, int dim, int64_t by) {
  const Mesh& mesh = layout.mesh();
  const std::vector<int> axes = layout.AxesOf(dim);
  const int64_t parts = layout.Parts(dim);
  std::vector<int> ranks = mesh.ranks();
  for (int rank : mesh.ranks()) {
    std::vector<int64_t> coords = *mesh.CoordsOf(rank);
    int64_t part = (layout.PartOf(dim, coords) + by) % parts;
    for (size_t i = axes.size(); i-- > 0; part /= mesh.shape()[axes[i]]) coords[axes[i]] = part % mesh.shape()[axes[i]];
    ranks[*mesh.IndexOf(mesh.RankAt(coords))] = rank;
  }
  ADJOIN_ASSIGN_OR_RETURN(Mesh rotated, Mesh::Create(mesh.shape(), std::move(ranks), mesh.axis_names()));
  rotated = rotated.WithWeights(mesh.weights());
  Layout::Cuts cuts;
  for (int d = 0; d < layout.dims(); ++d) {
    if (!layout.AxesOf(d).empty()) cuts[d] = PartSizes(layout, d);
  }
  return Layout::Create(layout.shape(), layout.dtype(), std::move(rotated), layout.placements(), std::move(cuts));
}

}  // namespace adjoin
