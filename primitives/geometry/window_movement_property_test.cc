// What windows fetch of a random layout, on random meshes: every cell of every rank against a loop over the outputs,
// and the adjoint against the inner product.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/own_part.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/simulated_ranks.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr int kRanks = 9;
constexpr int kCases = 10000;

// A window that fits an input of `n`.
Window RandomWindow(Draw& draw, int64_t n) {
  while (true) {
    Window::Options options;
    options.kernel = draw.Between(1, 4);
    options.stride = draw.Between(1, 3);
    options.dilation = draw.Between(1, 2);
    options.pad_lo = draw.Between(0, 3);
    options.pad_hi = draw.Between(0, 3);
    options.boundary = static_cast<Boundary>(draw.Between(0, 3));
    options.ceil_mode = options.boundary == Boundary::kZeros && draw.OneIn(3);
    const Window window = Window::Create(options).value();
    if (window.OutputSize(n).ok()) return window;
  }
}

// Where index `i` of the padded input has its value; -1 on the zero boundary.
int64_t ImageByWalking(int64_t i, int64_t n, Boundary boundary) {
  if (boundary == Boundary::kZeros) return 0 <= i && i < n ? i : -1;
  while (i < 0 || i >= n) {
    switch (boundary) {
      case Boundary::kCircular: i += i < 0 ? n : -n; break;
      case Boundary::kReflect: i = i < 0 ? -i : 2 * (n - 1) - i; break;
      default: i += i < 0 ? 1 : -1; break;
    }
  }
  return i;
}

// One dim of what a rank's kernel reads, by a loop over outputs and taps: the image of every cell.
std::vector<int64_t> ReadsByLooping(const Window& window, Interval outputs, int64_t n) {
  const Window::Options& o = window.options();
  std::vector<int64_t> touched;
  for (int64_t output = outputs.lo; output < outputs.hi; ++output) {
    for (int64_t tap = 0; tap < o.kernel; ++tap) touched.push_back(output * o.stride - o.pad_lo + tap * o.dilation);
  }
  std::vector<int64_t> images;
  if (touched.empty()) return images;
  const int64_t hi = *std::max_element(touched.begin(), touched.end());
  for (int64_t i = *std::min_element(touched.begin(), touched.end()); i <= hi; ++i) {
    images.push_back(ImageByWalking(i, n, o.boundary));
  }
  return images;
}

struct Case {
  Layout x;
  Layout y;
  std::map<int, Reading> windows;
  std::vector<ExchangeSchedule> schedules;
};

Case RandomCase(Draw& draw) {
  const std::vector<int64_t> shape = draw.Integers(draw.Between(1, 3), 1, 9);
  const Layout x = RandomLayout(draw, shape, RandomMesh(draw));
  std::map<int, Reading> windows;
  std::vector<int64_t> outputs = shape;
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (draw.OneIn(4)) continue;
    windows.emplace(dim, RandomWindow(draw, shape[dim]));
    outputs[dim] = *windows.at(dim).OutputSize(shape[dim]);
    if (!x.AxesOf(dim).empty() && draw.OneIn(2)) cuts[dim] = draw.Sizes(outputs[dim], x.Parts(dim));
  }
  const Layout y = Layout::Create(outputs, x.dtype(), x.mesh(), x.placements(), cuts).value();
  Case c{x, y, windows, {}};
  const Distribution to = Distribution::Reads(x, windows, y).value();
  for (int rank = 0; rank < kRanks; ++rank) {
    c.schedules.push_back(ExchangeSchedule::Build(Distribution::Of(x), to, rank).value());
  }
  return c;
}

// What the kernel of `rank` has to read: global flat index + 1, or 0 for fill.
std::vector<int64_t> ExpectedCells(const Case& c, int rank) {
  std::vector<int64_t> cells = {0};
  const Box outputs = c.y.BoxOf(rank);
  const Box held = c.x.BoxOf(rank);
  std::vector<bool> fill = {false};
  for (int dim = 0; dim < c.x.dims(); ++dim) {
    std::vector<int64_t> images;
    if (c.windows.count(dim) > 0) {
      images = ReadsByLooping(*c.windows.at(dim).As<Window>(), outputs[dim], c.x.shape()[dim]);
    } else {
      for (int64_t i = held[dim].lo; i < held[dim].hi; ++i) images.push_back(i);
    }
    std::vector<int64_t> finer;
    std::vector<bool> finer_fill;
    for (size_t i = 0; i < cells.size(); ++i) {
      for (int64_t image : images) {
        finer.push_back(cells[i] * c.x.shape()[dim] + std::max<int64_t>(image, 0));
        finer_fill.push_back(fill[i] || image < 0);
      }
    }
    cells = std::move(finer);
    fill = std::move(finer_fill);
  }
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = fill[i] ? 0 : cells[i] + 1;
  return cells;
}

// Takes the fetched tensor to the kernel's one by the index maps.
std::vector<int64_t> MapIndices(const Case& c, int rank, const std::vector<int64_t>& fetched,
                                std::vector<int64_t> shape) {
  const Box outputs = c.y.BoxOf(rank);
  std::vector<int64_t> cells = fetched;
  for (const auto& entry : c.windows) {
    const int dim = entry.first;
    const Need need = entry.second.Needed(outputs[dim], c.x.shape()[dim]);
    EXPECT_EQ(need.fetched, shape[dim]);
    const std::vector<int64_t> map = entry.second.As<Window>()->IndexMap(outputs[dim], c.x.shape()[dim]);
    if (map.empty()) continue;
    std::vector<int64_t> mapped_shape = shape;
    mapped_shape[dim] = need.extent;
    std::vector<int64_t> mapped;
    const std::vector<int64_t> origin(shape.size());
    ForEachCell(mapped_shape, Region{origin, mapped_shape}, [&](int64_t, const std::vector<int64_t>& at) {
      int64_t flat = 0;
      for (size_t d = 0; d < shape.size(); ++d) {
        flat = flat * shape[d] + (static_cast<int>(d) == dim ? map[at[d]] : at[d]);
      }
      mapped.push_back(cells[flat]);
    });
    cells = std::move(mapped);
    shape = std::move(mapped_shape);
  }
  return cells;
}

// Every rank's cell with the global index i is i + 1.
Tensors<int64_t> NumberedState(const Layout& x) {
  Tensors<int64_t> state;
  for (int rank = 0; rank < kRanks; ++rank) {
    state[rank] = {};
    if (!x.mesh().Has(rank)) continue;
    const Box box = x.BoxOf(rank);
    ForEachCell(x.shape(), Region{box.Origin(), box.Shape()},
                [&](int64_t flat, const std::vector<int64_t>&) { state[rank].push_back(flat + 1); });
  }
  return state;
}

std::string Describe(const Case& c) {
  std::string text = c.x.ToString() + "\n y " + c.y.ToString();
  for (const auto& entry : c.windows) text += "\n dim " + std::to_string(entry.first) + ": " + entry.second.ToString();
  return text;
}

TEST(WindowMovementPropertyTest, GivesEveryRankTheCellsThatItsOutputsRead) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const Case c = RandomCase(draw);
    SCOPED_TRACE(Describe(c));
    // Every rank holds values, also where the placement is P: they must stay at their coordinate.
    const Tensors<int64_t> moved = Move(c.schedules, NumberedState(c.x));
    for (int rank : c.x.mesh().ranks()) {
      const std::vector<int64_t>& shape = c.schedules[rank].to_shape();
      EXPECT_EQ(MapIndices(c, rank, moved.at(rank), shape), ExpectedCells(c, rank)) << "rank " << rank;
    }
  }
}

// Returns the box of `cells`, a tensor of `shape`, that `part`, of `part_shape`, is, where each of the part's cells is
// there once; they all differ.
std::optional<Region> FindPart(const std::vector<int64_t>& cells, const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& part, const std::vector<int64_t>& part_shape) {
  if (part.empty()) return std::nullopt;
  for (const int64_t cell : part) {
    if (std::count(cells.begin(), cells.end(), cell) != 1) return std::nullopt;
  }
  int64_t first = std::find(cells.begin(), cells.end(), part[0]) - cells.begin();
  Region box{shape, part_shape};
  for (size_t dim = shape.size(); dim-- > 0;) {
    box.at[dim] = first % shape[dim];
    first /= shape[dim];
    if (box.at[dim] + part_shape[dim] > shape[dim]) return std::nullopt;
  }
  std::vector<int64_t> found;
  ForEachCell(shape, box, [&](int64_t flat, const std::vector<int64_t>&) { found.push_back(cells[flat]); });
  return found == part ? std::make_optional(box) : std::nullopt;
}

TEST(WindowMovementPropertyTest, FindsTheOwnPartInWhatIsRead) {
  Draw draw = Draw::FromEnvironment();
  int found = 0;
  for (int i = 0; i < kCases / 2 && !HasFailure(); ++i) {
    const Case c = RandomCase(draw);
    SCOPED_TRACE(Describe(c));
    const Tensors<int64_t> source = NumberedState(c.x);
    const Tensors<int64_t> moved = Move(c.schedules, source);
    for (int rank : c.x.mesh().ranks()) {
      const ExchangeSchedule& schedule = c.schedules[rank];
      const std::optional<Region> expected =
          FindPart(moved.at(rank), schedule.to_shape(), source.at(rank), schedule.from_shape());
      EXPECT_EQ(OwnPartIn(schedule), expected) << "rank " << rank;
      EXPECT_EQ(ReadsOwnPart(c.x, c.windows, c.y, rank), expected.has_value()) << "rank " << rank;
      found += expected.has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(found, kCases / 2);
}

TEST(WindowMovementPropertyTest, ReversedIsTheTranspose) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < kCases / 2 && !HasFailure(); ++i) {
    const Case c = RandomCase(draw);
    SCOPED_TRACE(Describe(c));
    Tensors<int64_t> x;
    Tensors<int64_t> y;
    std::vector<ExchangeSchedule> reversed;
    for (const ExchangeSchedule& schedule : c.schedules) {
      x[schedule.rank()] = draw.Integers(VolumeOf(schedule.from_shape()), -9, 9);
      y[schedule.rank()] = draw.Integers(VolumeOf(schedule.to_shape()), -9, 9);
      reversed.push_back(schedule.Reversed());
    }
    const Tensors<int64_t> fx = Move(c.schedules, x);
    const Tensors<int64_t> fy = Move(reversed, y);
    int64_t left = 0;
    int64_t right = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (size_t k = 0; k < y[rank].size(); ++k) left += fx.at(rank)[k] * y[rank][k];
      for (size_t k = 0; k < x[rank].size(); ++k) right += x[rank][k] * fy.at(rank)[k];
    }
    EXPECT_EQ(left, right);
  }
}

}  // namespace
}  // namespace adjoin
