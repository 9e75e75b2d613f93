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

std::vector<int64_t> SizesOf(const Layout& layout, int dim) {
  std::vector<int64_t> sizes;
  for (int64_t part = 0; part < layout.Parts(dim); ++part) {
    sizes.push_back(layout.Boundaries(dim)[part + 1] - layout.Boundaries(dim)[part]);
  }
  return sizes;
}

// `coarse` with one more axis, which was B, splitting `dim` inside its parts.
Layout SplitInside(Draw& draw, const Layout& coarse, int axis, int dim) {
  std::vector<Placement> placements = coarse.placements();
  placements[axis] = Placement::Split(dim);
  Layout::Cuts cuts;
  for (int d = 0; d < coarse.dims(); ++d) {
    if (d != dim && !coarse.AxesOf(d).empty()) cuts[d] = SizesOf(coarse, d);
  }
  for (int64_t whole : SizesOf(coarse, dim)) {
    for (int64_t size : draw.Sizes(whole, coarse.mesh().shape()[axis])) cuts[dim].push_back(size);
  }
  return *Layout::Create(coarse.shape(), coarse.dtype(), coarse.mesh(), placements, cuts);
}

}  // namespace

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
  // Inner axes first: what is gathered lies inside what stays split.
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
  const int axis = static_cast<int>(draw.Between(0, mesh.axes() - 1));
  const int i = RandomDim(draw, shape);
  const int j = RandomDim(draw, shape);
  std::vector<Placement> placements = any.placements();
  placements[axis] = Placement::Broadcast();
  for (int inner = axis + 1; inner < mesh.axes(); ++inner) {
    const Placement& placement = placements[inner];
    if (placement == Placement::Split(i) || placement == Placement::Split(j)) placements[inner] = Placement::Broadcast();
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
