#include "tests/adjoint/tiling_cases.h"

#include <algorithm>
#include <map>
#include <random>
#include <sstream>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_tilings.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

at::Tensor Whole(Draw& draw, const std::vector<int64_t>& shape, DType dtype) {
  at::Tensor t = at::empty(shape, ScalarTypeOf(dtype));
  at::Tensor flat = t.view(-1);
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (t.is_complex()) {
      flat[i] = c10::complex<double>(draw.Between(1, 4), draw.Between(1, 4));
    } else {
      flat[i] = draw.Between(1, 4);
    }
  }
  return t;
}

at::Tensor Real(Draw& draw, const std::vector<int64_t>& shape) {
  std::normal_distribution<double> normal;
  at::Tensor t = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < t.numel(); ++i) t.data_ptr<double>()[i] = normal(draw.engine());
  return t;
}

// The coordinates of `rank` on the axes that are partial, or on the others.
std::vector<int64_t> CoordsOn(const Layout& layout, int rank, bool partial) {
  std::vector<int64_t> picked;
  const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if ((layout.placements()[axis].kind == Kind::kPartial) == partial) picked.push_back(coords[axis]);
  }
  return picked;
}

GatheredState RandomState(Draw& draw, const Layout& layout, int ranks) {
  std::map<std::vector<int64_t>, at::Tensor> partials;
  GatheredState state;
  for (int rank : layout.mesh().ranks()) {
    at::Tensor& partial = partials[CoordsOn(layout, rank, true)];
    if (partial.defined()) continue;
    partial = Whole(draw, layout.shape(), layout.dtype());
    state.global = state.global.defined() ? state.global + partial : partial;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    state.local.push_back(layout.mesh().Has(rank)
                              ? SliceOf(partials[CoordsOn(layout, rank, true)], layout.BoxOf(rank))
                              : at::zeros(std::vector<int64_t>(layout.dims(), 0), ScalarTypeOf(layout.dtype())));
  }
  return state;
}

}  // namespace

at::Tensor SliceOf(at::Tensor global, const Box& box) {
  for (int dim = 0; dim < box.dims(); ++dim) global = global.narrow(dim, box[dim].lo, box[dim].size());
  return global.clone(at::MemoryFormat::Contiguous);
}

bool SameNumbers(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

absl::Status HoldsParts(const std::string& what, const Layout& layout, const std::vector<at::Tensor>& local,
                        const at::Tensor& global) {
  for (std::size_t rank = 0; rank < local.size(); ++rank) {
    if (!layout.mesh().Has(static_cast<int>(rank))) {
      if (local[rank].sizes() == at::IntArrayRef(std::vector<int64_t>(layout.dims(), 0))) continue;
      return absl::InternalError(absl::StrCat(what, ": rank ", rank, " outside the mesh got something"));
    }
    at::Tensor sum;
    for (int other : layout.mesh().ranks()) {
      if (CoordsOn(layout, other, false) != CoordsOn(layout, static_cast<int>(rank), false)) continue;
      sum = sum.defined() ? sum + local[other] : local[other];
    }
    const at::Tensor expected = SliceOf(global, layout.BoxOf(static_cast<int>(rank)));
    if (SameNumbers(sum, expected)) continue;
    std::ostringstream text;
    text << what << ": rank " << rank << " expected " << expected << " got " << sum;
    return absl::InternalError(text.str());
  }
  return absl::OkStatus();
}

at::Tensor Reference(const TilingCase& c, const at::Tensor& x) {
  if (c.expand) return x.expand(c.y.shape());
  std::vector<int64_t> repeats = c.y.shape();
  const int new_dims = c.y.dims() - c.x.dims();
  for (int d = 0; d < c.x.dims(); ++d) {
    if (c.x.shape()[d] > 0) repeats[new_dims + d] /= c.x.shape()[d];
  }
  return x.repeat(repeats);
}

TilingCase RandomTilingCase(Draw& draw, bool expand, int ranks, DType dtype) {
  Mesh mesh = RandomMesh(draw);
  while (*std::max_element(mesh.ranks().begin(), mesh.ranks().end()) >= ranks) mesh = RandomMesh(draw);
  auto [x, y] = RandomTiling(draw, mesh, expand, dtype);
  TilingCase c(expand, std::move(x), std::move(y));
  c.what =
      absl::StrCat(expand ? "expand" : "repeat", " on ", ranks, " ranks from ", c.x.ToString(), " to ", c.y.ToString());
  c.x_state = RandomState(draw, c.x, ranks);
  c.w_state = RandomState(draw, *c.y.Dual(), ranks);
  c.v_state = RandomState(draw, c.x, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto free = [&](const at::Tensor& like) {
      return dtype == DType::kFloat64 ? Real(draw, like.sizes().vec()) : Whole(draw, like.sizes().vec(), dtype);
    };
    c.x_free.push_back(free(c.x_state.local[rank]));
    c.y_free.push_back(free(c.w_state.local[rank]));
  }
  return c;
}

}  // namespace adjoin
