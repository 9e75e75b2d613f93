#include "tests/adjoint/gathered.h"

#include <map>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "primitives/torch_dtype.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

// The coordinates of `rank` on the axes of one kind.
std::vector<int64_t> CoordsOn(const Layout& layout, int rank, Kind kind, bool others) {
  std::vector<int64_t> picked;
  const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if ((layout.placements()[axis].kind == kind) != others) picked.push_back(coords[axis]);
  }
  return picked;
}

}  // namespace

at::Tensor Slice(at::Tensor global, const Box& box) {
  for (int dim = 0; dim < box.dims(); ++dim) global = global.narrow(dim, box[dim].lo, box[dim].size());
  return global.clone(at::MemoryFormat::Contiguous);
}

at::Tensor Outside(int dims, DType dtype) { return at::zeros(std::vector<int64_t>(dims, 0), ScalarTypeOf(dtype)); }

at::Tensor FillSource(Draw& draw, const Layout& from, int ranks, MovementCase& c) {
  std::map<std::vector<int64_t>, at::Tensor> partials;
  for (int rank : from.mesh().ranks()) {
    at::Tensor& partial = partials[CoordsOn(from, rank, Kind::kPartial, false)];
    if (!partial.defined()) partial = RandomTensor(draw, from.shape(), from.dtype());
  }
  at::Tensor global = at::zeros(from.shape(), ScalarTypeOf(from.dtype()));
  for (const auto& entry : partials) global = global + entry.second;
  c.exact = partials.size() < 2 || RoundingOf(from.dtype()) == 0;
  c.copies = !from.HasKind(Kind::kPartial);
  for (int rank = 0; rank < ranks; ++rank) {
    if (!from.mesh().Has(rank)) {
      c.valid.push_back(Outside(from.dims(), from.dtype()));
    } else {
      c.valid.push_back(Slice(partials[CoordsOn(from, rank, Kind::kPartial, false)], from.BoxOf(rank)));
    }
    c.x.push_back(RandomCells(draw, c.valid[rank].sizes().vec(), from.dtype()));
  }
  return global;
}

void FillSums(const Layout& to, int ranks, MovementCase& c) {
  c.copies = c.copies && !to.HasKind(Kind::kPartial);
  c.sums_with.resize(ranks);
  for (int rank : to.mesh().ranks()) {
    for (int other : to.mesh().ranks()) {
      if (CoordsOn(to, rank, Kind::kPartial, true) == CoordsOn(to, other, Kind::kPartial, true)) {
        c.sums_with[rank].push_back(other);
      }
    }
  }
}

}  // namespace adjoin
