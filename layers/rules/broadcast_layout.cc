#include "layers/rules/broadcast_layout.h"

#include <utility>

namespace adjoin {
namespace {

// Whether dim `dim` of a tensor of `shape` is repeated from one of the shape `from`.
bool Repeats(const std::vector<int64_t>& from, const std::vector<int64_t>& shape, int dim) {
  const int own = dim - static_cast<int>(shape.size() - from.size());
  return own < 0 || from[own] != shape[dim];
}

}  // namespace

absl::StatusOr<Layout> RepeatedTo(const Layout& x, const std::vector<int64_t>& shape) {
  const int new_dims = static_cast<int>(shape.size()) - x.dims();
  std::vector<Placement> placements = x.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    const int dim = placement.dim;
    placement.dim += new_dims;
    if (!Repeats(x.shape(), shape, placement.dim)) cuts[placement.dim] = PartSizes(x, dim);
  }
  return Layout::Create(shape, x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<Layout> ReadWhenRepeated(const Layout& x, const Layout& y) {
  const int new_dims = y.dims() - x.dims();
  std::vector<Placement> placements = y.placements();
  Layout::Cuts cuts;
  for (Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit) continue;
    const int dim = placement.dim;
    if (Repeats(x.shape(), y.shape(), dim)) {
      placement = Placement::Broadcast();
      continue;
    }
    placement = Placement::Split(dim - new_dims);
    cuts[placement.dim] = PartSizes(y, dim);
  }
  return Layout::Create(x.shape(), x.dtype(), y.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace adjoin
