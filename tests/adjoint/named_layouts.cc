#include "tests/adjoint/named_layouts.h"

#include <utility>

namespace adjoin {
namespace {

using Kind = Placement::Kind;

int RandomDim(Draw& draw, const std::vector<int64_t>& shape) {
  return static_cast<int>(draw.Between(0, static_cast<int64_t>(shape.size()) - 1));
}

// `placements` with uneven cuts half of the time.
Layout RandomlyCut(Draw& draw, const std::vector<int64_t>& shape, DType dtype, const Mesh& mesh,
                   const std::vector<Placement>& placements) {
  const Layout even = *Layout::Create(shape, dtype, mesh, placements);
  Layout::Cuts cuts;
  for (int dim = 0; dim < even.dims(); ++dim) {
    if (!even.AxesOf(dim).empty() && draw.OneIn(2)) cuts[dim] = draw.Sizes(shape[dim], even.Parts(dim));
  }
  return *Layout::Create(shape, dtype, mesh, placements, cuts);
}

// `coarse` with one more axis, which was B, splitting `dim` inside its parts.
Layout SplitInside(Draw& draw, const Layout& coarse, int axis, int dim) {
  std::vector<Placement> placements = coarse.placements();
  placements[axis] = Placement::Split(dim);
  Layout::Cuts cuts;
  for (int d = 0; d < coarse.dims(); ++d) {
    if (d != dim && !coarse.AxesOf(d).empty()) cuts[d] = PartSizes(coarse, d);
  }
  for (int64_t whole : PartSizes(coarse, dim)) {
    for (int64_t size : draw.Sizes(whole, coarse.mesh().shape()[axis])) cuts[dim].push_back(size);
  }
  return *Layout::Create(coarse.shape(), coarse.dtype(), coarse.mesh(), placements, cuts);
}

}  // namespace

LayoutPair RandomBroadcast(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, DType dtype) {
  // Mostly one axis at least repeats.
  const int64_t repeats = mesh.axes() == 0 || draw.OneIn(8) ? -1 : draw.Between(0, mesh.axes() - 1);
  std::vector<Placement> placements;
  std::vector<int64_t> from_shape = mesh.shape();
  std::vector<int64_t> at(mesh.axes(), -1);
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    const bool split = !shape.empty() && axis != repeats && draw.OneIn(2);
    placements.push_back(split ? Placement::Split(RandomDim(draw, shape)) : Placement::Broadcast());
    if (split || (axis != repeats && draw.OneIn(4))) continue;
    at[axis] = draw.Between(0, from_shape[axis] - 1);
    from_shape[axis] = 1;
  }
  std::vector<int> from_ranks;
  for (int rank : mesh.ranks()) {
    const std::vector<int64_t> coords = *mesh.CoordsOf(rank);
    bool in = true;
    for (std::size_t axis = 0; axis < at.size(); ++axis) in = in && (at[axis] < 0 || coords[axis] == at[axis]);
    if (in) from_ranks.push_back(rank);
  }
  const Layout to = RandomlyCut(draw, shape, dtype, mesh, placements);
  Layout::Cuts cuts;
  for (int dim = 0; dim < to.dims(); ++dim) {
    if (!to.AxesOf(dim).empty()) cuts[dim] = PartSizes(to, dim);
  }
  return {*Layout::Create(shape, dtype, *Mesh::Create(from_shape, from_ranks), placements, cuts), to};
}

LayoutPair RandomScatter(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, int ranks, DType dtype) {
  std::vector<Placement> placements;
  for (int axis = 0; axis < mesh.axes(); ++axis) placements.push_back(Placement::Split(RandomDim(draw, shape)));
  return {Layout::Owner(shape, dtype, static_cast<int>(draw.Between(0, ranks - 1))),
          RandomlyCut(draw, shape, dtype, mesh, placements)};
}

LayoutPair RandomAllGather(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, DType dtype) {
  const Layout any = RandomLayout(draw, shape, mesh).WithDType(dtype);
  std::vector<Placement> placements;
  for (const Placement& placement : any.placements()) {
    placements.push_back(draw.OneIn(2) ? Placement::Split(RandomDim(draw, shape)) : placement);
  }
  const Layout from = RandomlyCut(draw, shape, dtype, mesh, placements);
  // Inner axes first: the dims that are gathered are inside those that stay split.
  std::vector<bool> stays(shape.size(), false);
  std::vector<int64_t> factor(shape.size(), 1);
  for (int axis = mesh.axes() - 1; axis >= 0; --axis) {
    if (placements[axis].kind != Kind::kSplit) continue;
    const int dim = placements[axis].dim;
    if (stays[dim] || draw.OneIn(4)) {
      stays[dim] = true;
    } else {
      placements[axis] = Placement::Broadcast();
      factor[dim] *= mesh.shape()[axis];
    }
  }
  Layout::Cuts cuts;
  for (int dim = 0; dim < from.dims(); ++dim) {
    if (!stays[dim]) continue;
    const std::vector<int64_t>& fine = from.Boundaries(dim);
    for (int64_t part = 0; part < from.Parts(dim); part += factor[dim]) {
      cuts[dim].push_back(fine[part + factor[dim]] - fine[part]);
    }
  }
  return {from, *Layout::Create(shape, dtype, mesh, placements, cuts)};
}

LayoutPair RandomAllToAll(Draw& draw, const std::vector<int64_t>& shape, const Mesh& mesh, DType dtype) {
  const Layout any = RandomLayout(draw, shape, mesh).WithDType(dtype);
  if (mesh.axes() == 0) return {any, any};
  // Mostly an axis along which something moves.
  int axis = static_cast<int>(draw.Between(0, mesh.axes() - 1));
  for (int other = 0; mesh.shape()[axis] == 1 && other < mesh.axes(); ++other) axis = draw.OneIn(4) ? axis : other;
  const int i = RandomDim(draw, shape);
  int j = RandomDim(draw, shape);
  if (i == j && !draw.OneIn(4)) j = (i + 1) % static_cast<int>(shape.size());
  std::vector<Placement> placements = any.placements();
  placements[axis] = Placement::Broadcast();
  for (int inner = axis + 1; inner < mesh.axes(); ++inner) {
    const Placement& placement = placements[inner];
    if (placement != Placement::Split(i) && placement != Placement::Split(j)) continue;
    placements[inner] = Placement::Broadcast();
  }
  const Layout together = RandomlyCut(draw, shape, dtype, mesh, placements);
  const Layout from = SplitInside(draw, together, axis, i);
  if (i == j) return {from, from};  // the same cuts, or it is not an all-to-all
  return {from, SplitInside(draw, together, axis, j)};
}

LayoutPair RandomSendReceive(Draw& draw, const std::vector<int64_t>& shape, int ranks, DType dtype) {
  return {Layout::Owner(shape, dtype, static_cast<int>(draw.Between(0, ranks - 1))),
          Layout::Owner(shape, dtype, static_cast<int>(draw.Between(0, ranks - 1)))};
}

}  // namespace adjoin
