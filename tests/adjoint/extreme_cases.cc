#include "tests/adjoint/extreme_cases.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/mesh.h"
#include "primitives/torch_dtype.h"
#include "tests/adjoint/random_meshes.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

at::Tensor Outside(const Layout& layout) {
  return at::zeros(std::vector<int64_t>(layout.dims(), 0), ScalarTypeOf(layout.dtype()));
}

// Row-major number of `rank` on the axes of `kind`.
int64_t NumberOn(const Layout& layout, int rank, Kind kind) {
  int64_t number = 0;
  const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if (layout.placements()[axis].kind == kind) number = number * layout.mesh().shape()[axis] + coords[axis];
  }
  return number;
}

int64_t CountOn(const Layout& layout, Kind kind) {
  int64_t count = 1;
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if (layout.placements()[axis].kind == kind) count *= layout.mesh().shape()[axis];
  }
  return count;
}

// The sum over the ranks that differ from `rank` only on axes of `kind`.
at::Tensor SumOver(const Layout& layout, Kind kind, const std::vector<at::Tensor>& parts, int rank) {
  at::Tensor sum;
  const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
  for (int other : layout.mesh().ranks()) {
    bool in = true;
    const std::vector<int64_t> at = *layout.mesh().CoordsOf(other);
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      in = in && (layout.placements()[axis].kind == kind || at[axis] == coords[axis]);
    }
    if (in) sum = sum.defined() ? sum + parts[other] : parts[other];
  }
  return sum;
}

at::Tensor Integers(Draw& draw, const std::vector<int64_t>& shape, DType dtype, int64_t lo, int64_t hi) {
  return at::tensor(draw.Integers(VolumeOf(shape), lo, hi), at::kLong).reshape(shape).to(ScalarTypeOf(dtype));
}

bool IsUnsigned(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kBool; }

at::Tensor Cells(Draw& draw, const std::vector<int64_t>& shape, DType dtype, bool ties, bool special) {
  if (ties || !IsFloatingPoint(dtype)) {
    const int64_t most = ties ? 2 : 100;
    at::Tensor cells = Integers(draw, shape, dtype, IsUnsigned(dtype) ? 0 : -most, most);
    if (!special) return cells;
    const at::Tensor dice = Integers(draw, shape, DType::kInt64, 0, 11);
    const double infinity = std::numeric_limits<double>::infinity();
    cells.masked_fill_(dice == 0, std::numeric_limits<double>::quiet_NaN());
    cells.masked_fill_(dice == 1, infinity);
    return cells.masked_fill_((dice > 1).logical_and(dice < 6), -infinity);
  }
  std::normal_distribution<double> normal;
  at::Tensor cells = at::empty(shape, at::kDouble);
  std::generate_n(cells.data_ptr<double>(), cells.numel(), [&] { return normal(draw.engine()); });
  return cells.to(ScalarTypeOf(dtype));
}

// What the ranks must find, together.
ExtremeResults Truth(const ExtremeCase& c, int ranks) {
  ExtremeResults truth(ranks);
  at::Tensor stack = c.stack.clone();
  const bool differentiable = IsFloatingPoint(c.from.dtype());
  stack.set_requires_grad(differentiable);
  const at::Tensor y = c.reduce == ReduceOp::kMax ? stack.amax(0) : stack.amin(0);
  for (int rank : c.to.mesh().ranks()) truth.y[rank] = SliceOf(y.detach(), c.to, rank);
  if (!differentiable) return truth;
  at::Tensor loss = (y * 0).sum();  // it has a gradient, also if no rank has a cell
  at::Tensor loss_of_square = loss;
  std::vector<at::Tensor> w(ranks);
  for (int rank : c.to.mesh().ranks()) {
    if (NumberOn(c.to, rank, Kind::kPartial) != 0) continue;
    w[rank] = c.cotangent[rank].clone().requires_grad_();
    loss = loss + (w[rank] * SliceOf(y, c.to, rank)).sum();
    loss_of_square = loss_of_square + (w[rank] * SliceOf(y, c.to, rank).pow(2)).sum();
  }
  const at::Tensor first = torch::autograd::grad({loss}, {stack}, {}, /*retain_graph=*/true)[0];
  at::Tensor second;
  if (HasSecond(c)) {
    const at::Tensor g = torch::autograd::grad({loss_of_square}, {stack}, {}, true, /*create_graph=*/true)[0];
    at::Tensor squares = at::zeros({}, at::kDouble);
    for (int rank : c.from.mesh().ranks()) {
      const at::Tensor part = SliceOf(g[NumberOn(c.from, rank, Kind::kPartial)], c.from, rank);
      squares = squares + (c.weight[rank] * part.pow(2)).sum();
    }
    squares.backward();
    second = stack.grad();
  }
  for (int rank : c.from.mesh().ranks()) {
    const int64_t partial = NumberOn(c.from, rank, Kind::kPartial);
    truth.first[rank] = SliceOf(first[partial], c.from, rank);
    if (second.defined()) truth.second[rank] = SliceOf(second[partial], c.from, rank);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (second.defined() && w[rank].defined()) truth.of_cotangent[rank] = w[rank].grad();
  }
  return truth;
}

double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return 1e-13;
    case DType::kFloat32: return 1e-6;
    case DType::kFloat16: return 8.0 / 2048;
    case DType::kBFloat16: return 8.0 / 256;
    default: return 0;
  }
}

}  // namespace

at::Tensor SliceOf(at::Tensor global, const Layout& layout, int rank) {
  const Box box = layout.BoxOf(rank);
  for (int dim = 0; dim < box.dims(); ++dim) global = global.narrow(dim, box[dim].lo, box[dim].size());
  return global;
}

bool Near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::allclose(a.to(at::kDouble), b.to(at::kDouble), tolerance, tolerance, /*equal_nan=*/true);
}

Layout WithPlacements(const Layout& layout, const std::function<Placement(Placement)>& change) {
  std::vector<Placement> placements;
  for (const Placement& placement : layout.placements()) placements.push_back(change(placement));
  return *layout.WithPlacements(std::move(placements));
}

ExtremeCase ExtremeCaseOf(Draw& draw, const Layout& from, const Layout& to, ReduceOp reduce, int ranks) {
  ExtremeCase c{"", from, to, reduce, false, false, {}, {}, {}, {}, {}};
  const DType dtype = from.dtype();
  const bool ties = draw.OneIn(2);
  c.special = ties && IsFloatingPoint(dtype) && from.HasKind(Kind::kPartial) && draw.OneIn(2);
  c.what = absl::StrCat("from ", from.ToString(), " to ", to.ToString(), " on ", ranks, " ranks", ties ? ", ties" : "",
                        c.special ? ", NaN and infinities" : "");
  std::vector<int64_t> stacked = from.shape();
  stacked.insert(stacked.begin(), CountOn(from, Kind::kPartial));
  c.stack = Cells(draw, stacked, dtype, ties, c.special);
  const at::Tensor weight = Integers(draw, stacked, dtype, 1, 3);
  std::vector<at::Tensor> cotangents;
  for (int64_t i = 0; i < CountOn(to, Kind::kBroadcast); ++i) {
    cotangents.push_back(Integers(draw, to.shape(), dtype, 1, 4));
  }
  int64_t cells = 0;
  for (int rank = 0; rank < ranks; ++rank) cells += from.BoxOf(rank).Volume();
  const at::Tensor distinct = at::randperm(cells + 1, at::kLong);
  cells = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool in = from.mesh().Has(rank);
    const int64_t partial = in ? NumberOn(from, rank, Kind::kPartial) : 0;
    c.x.push_back(in ? SliceOf(c.stack[partial], from, rank).contiguous() : Outside(from));
    c.weight.push_back(in ? SliceOf(weight[partial], from, rank).contiguous() : Outside(from));
    c.free.push_back(distinct.narrow(0, cells, c.x[rank].numel()).reshape(c.x[rank].sizes()).to(c.x[rank].dtype()));
    cells += from.BoxOf(rank).Volume();
    c.cotangent.push_back(to.mesh().Has(rank)
                              ? SliceOf(cotangents[NumberOn(to, rank, Kind::kBroadcast)], to, rank).contiguous()
                              : Outside(to));
  }
  return c;
}

ExtremeCase RandomExtremeCase(Draw& draw, int ranks, DType dtype) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(0, 4), 1, 5);
  if (!shape.empty() && draw.OneIn(20)) shape.back() = 0;
  if (!shape.empty() && draw.OneIn(15)) shape[0] = draw.Between(2000, 3000);  // beyond recursive doubling's 8 KiB
  const ReduceOp reduce = draw.OneIn(2) ? ReduceOp::kMax : ReduceOp::kMin;
  const auto partial = [&](Placement p) {
    return p.kind == Kind::kPartial || (p.kind == Kind::kBroadcast && draw.OneIn(2)) ? Placement::Partial(reduce) : p;
  };
  const auto reduced = [](Placement p) { return p.kind == Kind::kPartial ? Placement::Broadcast() : p; };
  const Layout any = RandomLayout(draw, shape, RandomMeshOf(draw, ranks)).WithDType(dtype);
  const Layout from = WithPlacements(any, partial);
  const bool named = draw.OneIn(4);
  const Mesh mesh = draw.OneIn(2) ? from.mesh() : RandomMeshOf(draw, ranks);
  const Layout to = named ? WithPlacements(from, reduced) : RandomLayout(draw, shape, mesh).WithDType(dtype);
  ExtremeCase c = ExtremeCaseOf(draw, from, to, reduce, ranks);
  c.named = named;
  return c;
}

bool HasSecond(const ExtremeCase& c) {
  return c.from.dtype() == DType::kFloat64 && !c.special && !c.from.HasKind(Kind::kBroadcast);
}

void ExpectAmax(const ExtremeCase& c, const ExtremeResults& r, int ranks) {
  const ExtremeResults truth = Truth(c, ranks);
  const double tolerance = Tolerance(c.from.dtype());
  double slope[2] = {0, 0};
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(absl::StrCat(c.what, ", rank ", rank));
    if (r.free_slope[rank].defined()) {
      for (int i : {0, 1}) slope[i] += r.free_slope[rank][i].item<double>();
    }
    if (c.to.mesh().Has(rank)) {
      const at::Tensor y = SumOver(c.to, Kind::kPartial, r.y, rank);
      ASSERT_TRUE(Near(y, truth.y[rank], 0)) << y << truth.y[rank];
      if (HasSecond(c) && truth.of_cotangent[rank].defined()) {
        const at::Tensor g = SumOver(c.to, Kind::kPartial, r.of_cotangent, rank);
        ASSERT_TRUE(Near(g, truth.of_cotangent[rank], 1e-12)) << g << truth.of_cotangent[rank];
      }
    } else {
      ASSERT_TRUE(Near(r.y[rank], Outside(c.to), 0));
    }
    if (!IsFloatingPoint(c.from.dtype()) || !c.from.mesh().Has(rank)) continue;
    const at::Tensor g = SumOver(c.from, Kind::kBroadcast, r.first, rank);
    ASSERT_TRUE(Near(g, truth.first[rank], tolerance)) << g << truth.first[rank];
    if (!HasSecond(c)) continue;
    ASSERT_TRUE(Near(r.second[rank], truth.second[rank], 1e-12)) << r.second[rank] << truth.second[rank];
  }
  ASSERT_EQ(slope[0], slope[1]) << c.what;
}

}  // namespace adjoin
