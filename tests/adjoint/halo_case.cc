#include "tests/adjoint/halo_case.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "tests/adjoint/gathered.h"
#include "tests/adjoint/random_meshes.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

// The position of a padded index in [0, n), or -1 for the zero boundary.
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
at::Tensor ReadDim(const at::Tensor& global, int dim, const Window::Options& w, Interval outputs, double fill) {
  const int64_t n = global.size(dim);
  std::vector<at::Tensor> cells;
  if (!outputs.empty()) {
    const int64_t lo = outputs.lo * w.stride - w.pad_lo;
    const int64_t hi = (outputs.hi - 1) * w.stride - w.pad_lo + w.dilation * (w.kernel - 1) + 1;
    for (int64_t i = lo; i < hi; ++i) {
      const int64_t image = Image(i, n, w.boundary);
      std::vector<int64_t> one = global.sizes().vec();
      one[dim] = 1;
      cells.push_back(image < 0 ? at::full(one, fill, global.options()) : global.narrow(dim, image, 1));
    }
  }
  return cells.empty() ? global.narrow(dim, 0, 0) : at::cat(cells, dim);
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
  std::map<int, Reading> windows;
};

Layout RandomlyCut(Draw& draw, const std::vector<int64_t>& shape, DType dtype, const Mesh& mesh,
                   const std::vector<Placement>& placements, int first_dim) {
  const Layout balanced = *Layout::Create(shape, dtype, mesh, placements);
  Layout::Cuts cuts;
  for (int dim = first_dim; dim < balanced.dims(); ++dim) {
    if (!balanced.AxesOf(dim).empty() && draw.OneIn(2)) cuts[dim] = draw.Sizes(shape[dim], balanced.Parts(dim));
  }
  return *Layout::Create(shape, dtype, mesh, placements, cuts);
}

HaloSetting RandomHalo(Draw& draw, int ranks, DType dtype) {
  const int leading = static_cast<int>(draw.Between(0, 2));
  const int spatial = static_cast<int>(draw.Between(1, 3));
  std::vector<int64_t> x_shape;
  for (int dim = 0; dim < leading; ++dim) x_shape.push_back(draw.OneIn(30) ? 0 : draw.Between(1, spatial == 3 ? 2 : 3));
  std::vector<int64_t> y_shape = x_shape;
  std::map<int, Reading> windows;
  for (int dim = leading; dim < leading + spatial; ++dim) {
    const int64_t most[] = {24, 9, 6};
    std::optional<Window> window;
    int64_t n = 0;
    while (!window.has_value()) {
      n = draw.OneIn(30) ? 0 : draw.Between(1, most[spatial - 1]);
      window = RandomWindow(draw, n);
    }
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
      const int64_t first = draw.OneIn(6) ? 0 : leading;
      placements.push_back(Placement::Split(static_cast<int>(draw.Between(first, leading + spatial - 1))));
    }
  }
  return {RandomlyCut(draw, x_shape, dtype, mesh, placements, 0),
          RandomlyCut(draw, y_shape, dtype, mesh, placements, leading), windows};
}

// How many numbers at most the adjoint adds up in one cell.
int64_t MostAddends(const HaloSetting& s) {
  int64_t most = 0;
  for (int rank : s.x.mesh().ranks()) {
    int64_t of_rank = 1;
    for (const auto& [dim, window] : s.windows) {
      const int64_t n = s.x.shape()[dim];
      if (n > 0) of_rank *= (window.Needed(s.y.BoxOf(rank)[dim], n).fetched + n - 1) / n;
    }
    most += of_rank;
  }
  return most;
}

HaloSetting RandomExactHalo(Draw& draw, int ranks, DType dtype) {
  for (;;) {
    HaloSetting s = RandomHalo(draw, ranks, dtype);
    // bfloat16 holds every integer up to 256, and cells are at most 8.
    if (SizeOf(dtype) != 2 || MostAddends(s) <= 32) return s;
  }
}

// What the kernel of `rank` reads: its own box in the leading dims, in the windowed ones what its outputs need.
at::Tensor PaddedOf(const HaloSetting& s, const at::Tensor& global, int rank, double fill) {
  if (!s.x.mesh().Has(rank)) return Outside(s.x.dims(), s.x.dtype());
  at::Tensor padded = global;
  for (int dim = 0; dim < s.x.dims(); ++dim) {
    const auto window = s.windows.find(dim);
    if (window == s.windows.end()) {
      const Interval own = s.x.BoxOf(rank)[dim];
      padded = padded.narrow(dim, own.lo, own.size());
    } else {
      padded = ReadDim(padded, dim, window->second.As<Window>()->options(), s.y.BoxOf(rank)[dim], fill);
    }
  }
  return padded.contiguous();
}

}  // namespace

MovementCase HaloCase(Draw& draw, int ranks, DType dtype) {
  const HaloSetting s = RandomExactHalo(draw, ranks, dtype);
  // The boundary of a partial tensor would be filled on every partial: that sum means nothing.
  const double fill = draw.OneIn(4) && !s.x.HasKind(Kind::kPartial) ? -3 : 0;
  MovementCase c;
  c.what = absl::StrCat("halo on ", ranks, " ranks from ", s.x.ToString(), " to the windows of ", s.y.ToString(),
                        ", fill ", fill);
  c.dtype = dtype;
  c.options.name = "halo";
  c.options.fill = fill;
  c.options.differentiable = IsFloatingPoint(dtype);
  c.linear = fill == 0;
  const at::Tensor global = FillSource(draw, s.x, ranks, c);
  FillSums(s.x, ranks, c);
  c.copies = c.copies && fill == 0;
  c.index_map.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    c.expected.push_back(PaddedOf(s, global, rank, fill));
    if (!c.linear) c.expected_linear.push_back(PaddedOf(s, global, rank, 0));
    std::vector<int64_t> fetched(s.x.dims());
    if (s.x.mesh().Has(rank)) {
      c.index_map[rank].resize(s.x.dims());
      fetched = s.x.LocalShape(rank);
      for (const auto& [dim, window] : s.windows) {
        const Need need = window.Needed(s.y.BoxOf(rank)[dim], s.x.shape()[dim]);
        c.index_map[rank][dim] = window.As<Window>()->IndexMap(s.y.BoxOf(rank)[dim], s.x.shape()[dim]);
        fetched[dim] = need.fetched;
      }
    }
    c.y.push_back(RandomCells(draw, fetched, dtype));
  }
  for (const auto& [dim, window] : s.windows) absl::StrAppend(&c.what, "; dim ", dim, " ", window.ToString());
  c.build = [s](Communicator* communicator, Movement::Options options) {
    return HaloExchange::Create(communicator, s.x, s.windows, s.y, std::move(options));
  };
  return c;
}

}  // namespace adjoin
