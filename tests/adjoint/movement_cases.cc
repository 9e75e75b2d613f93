#include "tests/adjoint/movement_cases.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/all_gather.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/all_to_all.h"
#include "primitives/broadcast.h"
#include "primitives/gather.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/redistribute.h"
#include "primitives/reduce_scatter.h"
#include "primitives/scatter.h"
#include "primitives/send_receive.h"
#include "primitives/sum_reduce.h"
#include "primitives/torch_dtype.h"
#include "tests/adjoint/named_layouts.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

torch::Tensor Slice(torch::Tensor global, const Box& box) {
  for (int dim = 0; dim < box.dims(); ++dim) global = global.narrow(dim, box[dim].lo, box[dim].size());
  return global.clone(torch::MemoryFormat::Contiguous);
}

torch::Tensor Outside(int dims, DType dtype) {
  return torch::zeros(std::vector<int64_t>(dims, 0), ScalarTypeOf(dtype));
}

// The coordinates of `rank` on the axes of one kind.
std::vector<int64_t> CoordsOn(const Layout& layout, int rank, Kind kind, bool others) {
  std::vector<int64_t> picked;
  const std::vector<int64_t> coords = *layout.mesh().CoordsOf(rank);
  for (int axis = 0; axis < layout.mesh().axes(); ++axis) {
    if ((layout.placements()[axis].kind == kind) != others) picked.push_back(coords[axis]);
  }
  return picked;
}

// Fills in the source's side, and returns the global tensor.
torch::Tensor FillSource(Draw& draw, const Layout& from, int ranks, MovementCase& c) {
  std::map<std::vector<int64_t>, torch::Tensor> partials;
  for (int rank : from.mesh().ranks()) {
    torch::Tensor& partial = partials[CoordsOn(from, rank, Kind::kPartial, false)];
    if (!partial.defined()) partial = RandomTensor(draw, from.shape(), from.dtype());
  }
  torch::Tensor global = torch::zeros(from.shape(), ScalarTypeOf(from.dtype()));
  for (const auto& entry : partials) global = global + entry.second;
  const bool rounds = from.dtype() == DType::kFloat64 || from.dtype() == DType::kFloat32 ||
                      from.dtype() == DType::kComplex64 || from.dtype() == DType::kComplex128;
  c.exact = partials.size() < 2 || !rounds;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!from.mesh().Has(rank)) {
      c.valid.push_back(Outside(from.dims(), from.dtype()));
    } else {
      c.valid.push_back(Slice(partials[CoordsOn(from, rank, Kind::kPartial, false)], from.BoxOf(rank)));
    }
    c.x.push_back(RandomTensor(draw, c.valid[rank].sizes().vec(), from.dtype()));
  }
  return global;
}

// Which ranks' cells add up to one part of `to`.
void FillSums(const Layout& to, int ranks, MovementCase& c) {
  c.sums_with.resize(ranks);
  for (int rank : to.mesh().ranks()) {
    for (int other : to.mesh().ranks()) {
      if (CoordsOn(to, rank, Kind::kPartial, true) == CoordsOn(to, other, Kind::kPartial, true)) {
        c.sums_with[rank].push_back(other);
      }
    }
  }
}

MovementCase LayoutCase(Draw& draw, const std::string& name, const Layout& from, const Layout& to, int ranks) {
  MovementCase c;
  c.what = absl::StrCat(name, " on ", ranks, " ranks from ", from.ToString(), " to ", to.ToString());
  c.dtype = from.dtype();
  const torch::Tensor global = FillSource(draw, from, ranks, c);
  FillSums(to, ranks, c);
  for (int rank = 0; rank < ranks; ++rank) {
    c.expected.push_back(to.mesh().Has(rank) ? Slice(global, to.BoxOf(rank)) : Outside(to.dims(), to.dtype()));
    c.y.push_back(RandomTensor(draw, c.expected[rank].sizes().vec(), to.dtype()));
  }
  c.index_map.resize(ranks);
  return c;
}

// The case of an entry point `Named::Create(communicator, from, to, options)`.
template <typename Named>
MovementCase NamedCase(Draw& draw, const std::string& name, const Layout& from, const Layout& to, int ranks) {
  MovementCase c = LayoutCase(draw, name, from, to, ranks);
  c.create = [from, to, name](Communicator* communicator, int64_t id) {
    return Named::Create(communicator, from, to, {id, name, 0, IsFloatingPoint(from.dtype())});
  };
  return c;
}

std::vector<int64_t> RandomShape(Draw& draw, int64_t lo, int64_t hi) {
  std::vector<int64_t> shape = draw.Integers(draw.Between(lo, hi), 1, 7);
  if (!shape.empty() && draw.OneIn(20)) shape[draw.Between(0, static_cast<int64_t>(shape.size()) - 1)] = 0;
  if (!shape.empty() && draw.OneIn(8)) shape[0] = draw.Between(2000, 3000);  // beyond recursive doubling's 8 KiB
  return shape;
}

Layout::Cuts CutsOf(const Layout& layout) {
  Layout::Cuts cuts;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (layout.AxesOf(dim).empty()) continue;
    for (int64_t part = 0; part < layout.Parts(dim); ++part) {
      cuts[dim].push_back(layout.Boundaries(dim)[part + 1] - layout.Boundaries(dim)[part]);
    }
  }
  return cuts;
}

Layout WithPlacements(const Layout& layout, const std::function<Placement(Placement)>& change) {
  std::vector<Placement> placements = layout.placements();
  for (Placement& placement : placements) placement = change(placement);
  return *Layout::Create(layout.shape(), layout.dtype(), layout.mesh(), placements, CutsOf(layout));
}

// A layout without partials, and the one that it repeats: some B axes shrunk to one of their coordinates.
std::pair<Layout, Layout> RandomBroadcast(Draw& draw, int ranks, DType dtype) {
  const Layout cut = WithPlacements(
      RandomLayout(draw, RandomShape(draw, 0, 4), RandomMeshOf(draw, ranks)).WithDType(dtype),
      [&](Placement p) { return p.kind == Kind::kPartial ? Placement::Broadcast() : p; });
  std::vector<int64_t> x_shape = cut.mesh().shape();
  std::vector<int64_t> at(x_shape.size(), -1);
  for (int axis = 0; axis < cut.mesh().axes(); ++axis) {
    if (cut.placements()[axis].kind != Kind::kBroadcast || draw.OneIn(5)) continue;
    at[axis] = draw.Between(0, x_shape[axis] - 1);
    x_shape[axis] = 1;
  }
  std::vector<int> x_ranks;
  for (int rank : cut.mesh().ranks()) {
    const std::vector<int64_t> coords = *cut.mesh().CoordsOf(rank);
    bool in = true;
    for (std::size_t axis = 0; axis < at.size(); ++axis) in = in && (at[axis] < 0 || coords[axis] == at[axis]);
    if (in) x_ranks.push_back(rank);
  }
  const Layout x = *Layout::Create(cut.shape(), dtype, *Mesh::Create(x_shape, x_ranks), cut.placements(), CutsOf(cut));
  return {x, cut};
}

// Where a padded index lies in [0, n), or -1 for the zero boundary.
int64_t Image(int64_t i, int64_t n, Boundary boundary) {
  if (i >= 0 && i < n) return i;
  switch (boundary) {
    case Boundary::kZeros: return -1;
    case Boundary::kCircular: return ((i % n) + n) % n;
    case Boundary::kReflect: return i < 0 ? -i : 2 * (n - 1) - i;
    case Boundary::kReplicate: return i < 0 ? 0 : n - 1;
  }
  return -1;
}

// What `outputs` of a window read of `dim`, done cell by cell.
torch::Tensor ReadDim(const torch::Tensor& global, int dim, const Window::Options& w, Interval outputs, double fill) {
  const int64_t n = global.size(dim);
  std::vector<torch::Tensor> cells;
  if (!outputs.empty()) {
    const int64_t lo = outputs.lo * w.stride - w.pad_lo;
    const int64_t hi = (outputs.hi - 1) * w.stride - w.pad_lo + w.dilation * (w.kernel - 1) + 1;
    for (int64_t i = lo; i < hi; ++i) {
      const int64_t image = Image(i, n, w.boundary);
      std::vector<int64_t> one = global.sizes().vec();
      one[dim] = 1;
      cells.push_back(image < 0 ? torch::full(one, fill, global.options()) : global.narrow(dim, image, 1));
    }
  }
  return cells.empty() ? global.narrow(dim, 0, 0) : torch::cat(cells, dim);
}

std::optional<Window> RandomWindow(Draw& draw, int64_t n) {
  Window::Options w;
  w.kernel = draw.Between(1, 4);
  w.stride = draw.Between(1, 3);
  w.dilation = draw.Between(1, 2);
  w.pad_lo = draw.Between(0, 3);
  w.pad_hi = draw.Between(0, 3);
  w.boundary = static_cast<Boundary>(draw.OneIn(2) ? 0 : draw.Between(0, 3));
  w.ceil_mode = w.boundary == Boundary::kZeros && draw.OneIn(3);
  const auto window = Window::Create(w);
  if (!window.ok() || !window->OutputSize(n).ok()) return std::nullopt;
  return *window;
}

struct HaloSetting {
  Layout x;
  Layout y;
  std::map<int, Window> windows;
};

HaloSetting RandomHalo(Draw& draw, int ranks, DType dtype) {
  std::vector<int64_t> x_shape = {draw.Between(1, 3)};
  std::vector<int64_t> y_shape = x_shape;
  std::map<int, Window> windows;
  const int spatial = static_cast<int>(draw.Between(1, 3));
  for (int dim = 1; dim <= spatial; ++dim) {
    const int64_t n = draw.Between(1, spatial == 1 ? 24 : 9);
    std::optional<Window> window;
    while (!window.has_value()) window = RandomWindow(draw, n);
    x_shape.push_back(n);
    y_shape.push_back(*window->OutputSize(n));
    windows.emplace(dim, *window);
  }
  const Mesh mesh = RandomMeshOf(draw, ranks);
  std::vector<Placement> placements;
  for (int axis = 0; axis < mesh.axes(); ++axis) {
    // Mostly splits of the windowed dims: they are what a halo is about.
    if (draw.OneIn(6)) {
      placements.push_back(draw.OneIn(2) ? Placement::Broadcast() : Placement::Partial());
    } else {
      placements.push_back(Placement::Split(static_cast<int>(draw.OneIn(6) ? 0 : draw.Between(1, spatial))));
    }
  }
  auto random_cuts = [&](const std::vector<int64_t>& shape) {
    const Layout balanced = *Layout::Create(shape, dtype, mesh, placements);
    if (!draw.OneIn(2)) return balanced;
    Layout::Cuts cuts;
    for (int dim = 1; dim <= spatial; ++dim) {
      if (!balanced.AxesOf(dim).empty()) cuts[dim] = draw.Sizes(shape[dim], balanced.Parts(dim));
    }
    return *Layout::Create(shape, dtype, mesh, placements, cuts);
  };
  return {random_cuts(x_shape), random_cuts(y_shape), windows};
}

MovementCase HaloCase(Draw& draw, int ranks, DType dtype) {
  const HaloSetting s = RandomHalo(draw, ranks, dtype);
  // The boundary of a partial tensor would be filled on every partial: that sum means nothing.
  const double fill = draw.OneIn(4) && !s.x.HasKind(Kind::kPartial) ? -3 : 0;
  MovementCase c;
  c.what = absl::StrCat("halo on ", ranks, " ranks from ", s.x.ToString(), " to the windows of ", s.y.ToString(),
                        ", fill ", fill);
  c.dtype = dtype;
  c.linear = fill == 0;
  const torch::Tensor global = FillSource(draw, s.x, ranks, c);
  FillSums(s.x, ranks, c);
  c.index_map.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (!s.x.mesh().Has(rank)) {
      c.expected.push_back(Outside(s.x.dims(), dtype));
      c.y.push_back(Outside(s.x.dims(), dtype));
      continue;
    }
    torch::Tensor expected = global.narrow(0, s.x.BoxOf(rank)[0].lo, s.x.BoxOf(rank)[0].size());
    std::vector<int64_t> fetched = {expected.size(0)};
    c.index_map[rank].resize(s.x.dims());
    for (const auto& [dim, window] : s.windows) {
      const Interval outputs = s.y.BoxOf(rank)[dim];
      expected = ReadDim(expected, dim, window.options(), outputs, fill);
      const Need need = window.Needed(outputs, s.x.shape()[dim]);
      c.index_map[rank][dim] = need.index_map;
      fetched.push_back(need.fetched);
    }
    c.expected.push_back(expected.contiguous());
    c.y.push_back(RandomTensor(draw, fetched, dtype));
  }
  for (const auto& [dim, window] : s.windows) absl::StrAppend(&c.what, "; dim ", dim, " ", window.ToString());
  c.create = [s, fill, dtype](Communicator* communicator, int64_t id) {
    return HaloExchange::Create(communicator, s.x, s.windows, s.y,
                                {id, "halo", fill, IsFloatingPoint(dtype)});
  };
  return c;
}

double Epsilon(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128: return 2.220446049250313e-16;
    case DType::kFloat32:
    case DType::kComplex64: return 1.1920928955078125e-07;
    default: return 0;  // drawn so that nothing is rounded
  }
}

torch::Tensor Wide(const torch::Tensor& t) { return t.is_complex() ? t.to(torch::kComplexDouble) : t.to(torch::kDouble); }

double Norm(const std::vector<torch::Tensor>& tensors) {
  double sum = 0;
  for (const torch::Tensor& t : tensors) sum += Wide(t).abs().pow(2).sum().item<double>();
  return std::sqrt(sum);
}

c10::complex<double> Inner(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  c10::complex<double> sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (Wide(a[i]).conj() * Wide(b[i])).sum().to(torch::kComplexDouble).item<c10::complex<double>>();
  }
  return sum;
}

}  // namespace

std::string ToString(CaseKind kind) {
  switch (kind) {
    case CaseKind::kBroadcast: return "Broadcast";
    case CaseKind::kSumReduce: return "SumReduce";
    case CaseKind::kAllSumReduce: return "AllSumReduce";
    case CaseKind::kScatter: return "Scatter";
    case CaseKind::kGather: return "Gather";
    case CaseKind::kAllGather: return "AllGather";
    case CaseKind::kReduceScatter: return "ReduceScatter";
    case CaseKind::kAllToAll: return "AllToAll";
    case CaseKind::kSendReceive: return "SendReceive";
    case CaseKind::kHalo: return "Halo";
    case CaseKind::kRepartition: return "Repartition";
    case CaseKind::kRedistribute: return "Redistribute";
  }
  return "?";
}

torch::Tensor RandomTensor(Draw& draw, const std::vector<int64_t>& shape, DType dtype) {
  const c10::ScalarType type = ScalarTypeOf(dtype);
  std::normal_distribution<double> normal;
  // Small integers are positive, so that no sum of them is 0 by chance.
  auto number = [&] { return Epsilon(dtype) > 0 ? normal(draw.engine()) : static_cast<double>(draw.Between(1, 8)); };
  const int64_t n = VolumeOf(shape);
  std::vector<c10::complex<double>> values(n);
  for (auto& value : values) value = {number(), number()};
  torch::Tensor t = torch::from_blob(values.data(), {n}, torch::kComplexDouble).clone().reshape(shape);
  return c10::isComplexType(type) ? t.to(type) : torch::real(t).to(type).contiguous();
}

Mesh RandomMeshOf(Draw& draw, int ranks) {
  std::vector<int64_t> shape;
  int64_t size = 1;
  const int64_t axes = draw.Between(0, 3);
  for (int64_t axis = 0; axis < axes; ++axis) {
    shape.push_back(draw.Between(1, std::min<int64_t>(ranks / size, draw.OneIn(2) ? ranks : 3)));
    size *= shape.back();
  }
  std::shuffle(shape.begin(), shape.end(), draw.engine());
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  std::shuffle(members.begin(), members.end(), draw.engine());
  members.resize(size);
  return *Mesh::Create(shape, members);
}

MovementCase RedistributeCase(Draw& draw, const Layout& from, const Layout& to, int ranks) {
  return NamedCase<Redistribute>(draw, "redistribute", from, to, ranks);
}

MovementCase RandomCase(Draw& draw, CaseKind kind, int ranks, DType dtype) {
  const bool differentiable = IsFloatingPoint(dtype);
  switch (kind) {
    case CaseKind::kHalo: return HaloCase(draw, ranks, dtype);
    case CaseKind::kBroadcast: {
      const auto [x, y] = RandomBroadcast(draw, ranks, dtype);
      return NamedCase<Broadcast>(draw, "broadcast", x, y, ranks);
    }
    case CaseKind::kSumReduce: {
      const auto [y, x] = RandomBroadcast(draw, ranks, dtype);
      return NamedCase<SumReduce>(draw, "sum-reduce", *x.Dual(), *y.Dual(), ranks);
    }
    case CaseKind::kScatter: {
      const auto [x, y] = RandomScatter(draw, RandomShape(draw, 1, 4), RandomMeshOf(draw, ranks), ranks, dtype);
      return NamedCase<Scatter>(draw, "scatter", x, y, ranks);
    }
    case CaseKind::kGather: {
      const auto [y, x] = RandomScatter(draw, RandomShape(draw, 1, 4), RandomMeshOf(draw, ranks), ranks, dtype);
      return NamedCase<Gather>(draw, "gather", x, y, ranks);
    }
    case CaseKind::kAllGather: {
      const auto [x, y] = RandomAllGather(draw, RandomShape(draw, 1, 4), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<AllGather>(draw, "all-gather", x, y, ranks);
    }
    case CaseKind::kReduceScatter: {
      const auto [y, x] = RandomAllGather(draw, RandomShape(draw, 1, 4), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<ReduceScatter>(draw, "reduce-scatter", *x.Dual(), *y.Dual(), ranks);
    }
    case CaseKind::kAllToAll: {
      const auto [x, y] = RandomAllToAll(draw, RandomShape(draw, 2, 4), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<AllToAll>(draw, "all-to-all", x, y, ranks);
    }
    case CaseKind::kSendReceive: {
      const auto [x, y] = RandomSendReceive(draw, RandomShape(draw, 0, 4), ranks, dtype);
      return NamedCase<SendReceive>(draw, "send-receive", x, y, ranks);
    }
    case CaseKind::kAllSumReduce: {
      const Layout x = WithPlacements(
          RandomLayout(draw, RandomShape(draw, 0, 4), RandomMeshOf(draw, ranks)).WithDType(dtype),
          [](Placement p) { return p.kind == Kind::kBroadcast ? Placement::Partial() : p; });
      MovementCase c = LayoutCase(draw, "all-sum-reduce", x, *AllSumReduce::OutputLayout(x), ranks);
      c.create = [x, differentiable](Communicator* communicator, int64_t id) {
        return AllSumReduce::Create(communicator, x, {id, "all-sum-reduce", 0, differentiable});
      };
      return c;
    }
    case CaseKind::kRepartition:
    case CaseKind::kRedistribute: {
      const int64_t least = kind == CaseKind::kRepartition ? 1 : 0;
      const std::vector<int64_t> shape = RandomShape(draw, least, 4);
      const Mesh mesh = RandomMeshOf(draw, ranks);
      auto layout = [&](const Mesh& on) {
        const Layout any = RandomLayout(draw, shape, on).WithDType(dtype);
        if (kind == CaseKind::kRedistribute) return any;
        std::vector<Placement> splits;
        for (int axis = 0; axis < on.axes(); ++axis) {
          splits.push_back(Placement::Split(static_cast<int>(draw.Between(0, any.dims() - 1))));
        }
        const Layout even = *Layout::Create(shape, dtype, on, splits);
        Layout::Cuts cuts;
        for (int dim = 0; dim < even.dims(); ++dim) {
          if (!even.AxesOf(dim).empty() && draw.OneIn(2)) cuts[dim] = draw.Sizes(shape[dim], even.Parts(dim));
        }
        return *Layout::Create(shape, dtype, on, splits, cuts);
      };
      const Layout from = layout(mesh);
      const Layout to = layout(draw.OneIn(3) ? mesh : RandomMeshOf(draw, ranks));
      return RedistributeCase(draw, from, to, ranks);
    }
  }
  return {};
}

absl::Status ValuesMatch(const MovementCase& c, const std::vector<torch::Tensor>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (c.sums_with[rank].empty()) {
      if (results[rank].sizes() == c.expected[rank].sizes()) continue;
      return absl::InternalError(absl::StrCat(c.what, ": rank ", rank, " outside the mesh got something"));
    }
    torch::Tensor sum;
    for (int other : c.sums_with[rank]) sum = sum.defined() ? sum + results[other] : results[other];
    for (std::size_t dim = 0; dim < c.index_map[rank].size(); ++dim) {
      if (c.index_map[rank][dim].empty()) continue;
      sum = sum.index_select(static_cast<int64_t>(dim), torch::tensor(c.index_map[rank][dim]));
    }
    const torch::Tensor& expected = c.expected[rank];
    const double tolerance = c.exact ? 0 : 64 * Epsilon(c.dtype);
    const bool same = sum.sizes() == expected.sizes() && sum.scalar_type() == expected.scalar_type() &&
                      torch::allclose(Wide(sum), Wide(expected), tolerance, tolerance);
    if (same) continue;
    std::ostringstream text;
    text << c.what << ": rank " << rank << " expected " << expected << " got " << sum;
    return absl::InternalError(text.str());
  }
  return absl::OkStatus();
}

absl::Status AdjointHolds(const MovementCase& c, const std::vector<torch::Tensor>& x,
                          const std::vector<torch::Tensor>& fx, const std::vector<torch::Tensor>& y,
                          const std::vector<torch::Tensor>& fy) {
  for (std::size_t rank = 0; rank < x.size(); ++rank) {
    if (fx[rank].sizes() != y[rank].sizes() || fy[rank].sizes() != x[rank].sizes()) {
      return absl::InternalError(absl::StrCat(c.what, ": rank ", rank, " got results of a wrong shape"));
    }
  }
  const double error = std::abs(Inner(fx, y) - Inner(x, fy));
  const double scale = std::max(Norm(fx) * Norm(y), Norm(x) * Norm(fy));
  const double relative = 1e-12 * std::max(1.0, Epsilon(c.dtype) / Epsilon(DType::kFloat64));
  if (!(error <= relative * scale)) {
    return absl::InternalError(absl::StrCat(c.what, ": <Fx, y> - <x, F*y> is ", error, ", where ", relative * scale,
                                            " is allowed"));
  }
  if (Norm(c.expected) > 0 && (Norm(x) == 0 || Norm(fx) == 0)) {
    return absl::InternalError(absl::StrCat(c.what, ": F is zero"));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
