#include "primitives/geometry/reshape.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/rank_weights.h"

namespace adjoin {
namespace {

using Numbers = std::vector<int64_t>;

// Dims [x_first, x_end) of the input that have as many cells as dims [y_first, y_end) of the result.
struct Group {
  int x_first, x_end, y_first, y_end;
  bool same = false;  // one dim of one extent: everything about it stays
};

struct Grouping {
  std::vector<Group> groups;
  bool empty = false;  // no cells, and the shapes do not say what belongs together: `groups` are the first, equal dims
};

Numbers Slice(const Numbers& shape, int first, int end) { return {shape.begin() + first, shape.begin() + end}; }

Numbers SizesOf(const Layout& layout, int dim) {
  Numbers sizes = layout.Boundaries(dim);
  std::adjacent_difference(sizes.begin(), sizes.end(), sizes.begin());
  sizes.erase(sizes.begin());
  return sizes;
}

// As small groups as possible. Both shapes have as many cells.
Grouping GroupsOf(const Numbers& x, const Numbers& y) {
  const int x_dims = static_cast<int>(x.size()), y_dims = static_cast<int>(y.size());
  Grouping result;
  int i = 0, j = 0;
  while (i < x_dims && j < y_dims && x[i] == y[j]) result.groups.push_back({i, i + 1, j, j + 1, true}), ++i, ++j;
  const int64_t rest = VolumeOf(Slice(x, i, x_dims));
  result.empty = rest == 0 ? i < x_dims || j < y_dims : rest != VolumeOf(Slice(y, j, y_dims));
  if (result.empty) return result;
  while (i < x_dims && j < y_dims) {
    Group group{i, i + 1, j, j + 1, x[i] == y[j]};
    for (int64_t of_x = x[i], of_y = y[j]; of_x != of_y;) {
      if (of_x < of_y) {
        of_x *= x[group.x_end++];
      } else {
        of_y *= y[group.y_end++];
      }
    }
    i = group.x_end;
    j = group.y_end;
    result.groups.push_back(group);
  }
  // What is left has one cell: cut, it still says which ranks have none.
  if (i < x_dims && !result.groups.empty()) {
    result.groups.back().x_end = x_dims;
    result.groups.back().same = false;
  } else if (i < x_dims || j < y_dims) {
    result.groups.push_back({i, x_dims, j, y_dims});
  }
  return result;
}

// The cells of a box of a row-major tensor, from its first one on, as nested runs, innermost first: how many, how far
// apart. Neighbours that continue each other are one, so that equal sets have equal runs.
std::vector<std::pair<int64_t, int64_t>> RunsOf(const Numbers& box, const Numbers& shape) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  int64_t stride = 1;
  for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim) {
    if (box[dim] > 1 && !runs.empty() && runs.back().first * runs.back().second == stride) {
      runs.back().first *= box[dim];
    } else if (box[dim] > 1) {
      runs.push_back({box[dim], stride});
    }
    stride *= shape[dim];
  }
  return runs;
}

// The box of a tensor of shape `y` that has the cells of `box`, not empty, of one of shape `x`.
std::optional<Box> SameCells(const Box& box, const Numbers& x, const Numbers& y) {
  Numbers last;
  for (int dim = 0; dim < box.dims(); ++dim) last.push_back(box[dim].hi - 1);
  const Box whole = Box::Whole(y);
  const Numbers from = whole.CellAt(RowMajorPlace(box.Origin(), x)), to = whole.CellAt(RowMajorPlace(last, x));
  std::vector<Interval> intervals;
  for (size_t dim = 0; dim < y.size(); ++dim) intervals.push_back({from[dim], to[dim] + 1});
  Box candidate(std::move(intervals));
  if (candidate.empty() || RunsOf(candidate.Shape(), y) != RunsOf(box.Shape(), x)) return std::nullopt;
  return candidate;
}

// The parts of a group in the result.
struct Grid {
  std::vector<Numbers> sizes;  // the sizes of the parts of each of its dims of the result
  Numbers part;                // row-major in the grid: which of the input's parts, row-major in its dims
};

// The sizes of intervals that follow each other in [0, extent); absent where they do not.
std::optional<Numbers> ChainOf(std::vector<Interval> intervals, int64_t extent) {
  std::sort(intervals.begin(), intervals.end(), [](Interval a, Interval b) { return a.lo < b.lo; });
  Numbers sizes;
  int64_t end = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (i > 0 && intervals[i] == intervals[i - 1]) continue;
    if (intervals[i].lo != end) return std::nullopt;
    end = intervals[i].hi;
    sizes.push_back(intervals[i].size());
  }
  return end == extent ? std::optional<Numbers>(std::move(sizes)) : std::nullopt;
}

// Parts without cells stay where one dim at most is cut; a grid of several dims cannot have them.
void KeepEmptyParts(const std::vector<std::optional<Box>>& boxes, Grid& grid) {
  size_t cut = 0;
  int dims_cut = 0;
  for (size_t dim = 0; dim < grid.sizes.size(); ++dim) {
    if (grid.sizes[dim].size() > 1) cut = dim, ++dims_cut;
  }
  if (dims_cut > 1 || grid.sizes.empty()) return;
  grid.sizes[cut].clear();
  grid.part.clear();
  for (size_t part = 0; part < boxes.size(); ++part) {
    grid.sizes[cut].push_back(boxes[part].has_value() ? (*boxes[part])[static_cast<int>(cut)].size() : 0);
    grid.part.push_back(static_cast<int64_t>(part));
  }
}

Numbers PartsOf(const Layout& x, const Group& group) {
  Numbers parts;
  for (int dim = group.x_first; dim < group.x_end; ++dim) parts.push_back(x.Parts(dim));
  return parts;
}

// Absent where some part is no block of the result, or the blocks are no grid.
std::optional<Grid> GridOf(const Layout& x, const Numbers& shape, const Group& group) {
  const Numbers of_x = Slice(x.shape(), group.x_first, group.x_end), of_y = Slice(shape, group.y_first, group.y_end);
  const Numbers parts = PartsOf(x, group);
  std::vector<std::optional<Box>> boxes(VolumeOf(parts));  // boxes of the result; absent: no cells
  Grid grid;
  for (size_t part = 0; part < boxes.size(); ++part) {
    const Numbers index = Box::Whole(parts).CellAt(static_cast<int64_t>(part));
    std::vector<Interval> intervals;
    for (int dim = group.x_first; dim < group.x_end; ++dim) {
      const int64_t at = index[dim - group.x_first];
      intervals.push_back({x.Boundaries(dim)[at], x.Boundaries(dim)[at + 1]});
    }
    const Box box(std::move(intervals));
    if (box.empty()) continue;
    boxes[part] = SameCells(box, of_x, of_y);
    if (!boxes[part].has_value()) return std::nullopt;
    // The order of first cells is that of the grid.
    grid.part.push_back(static_cast<int64_t>(part));
  }
  int64_t cells = 1;
  for (int dim = 0; dim < static_cast<int>(of_y.size()); ++dim) {
    std::vector<Interval> intervals;
    for (int64_t part : grid.part) intervals.push_back((*boxes[part])[dim]);
    std::optional<Numbers> sizes = ChainOf(std::move(intervals), of_y[dim]);
    if (!sizes.has_value()) return std::nullopt;
    cells *= static_cast<int64_t>(sizes->size());
    grid.sizes.push_back(*std::move(sizes));
  }
  if (cells != static_cast<int64_t>(grid.part.size())) return std::nullopt;
  KeepEmptyParts(boxes, grid);
  return grid;
}

std::string DimsText(int first, int end) {
  return end == first + 1 ? absl::StrCat("dim ", first) : absl::StrCat("dims ", first, " to ", end - 1);
}

absl::Status NoGrid(const Layout& x, const Group& group) {
  std::vector<int> cut;
  for (int dim = group.x_first; dim < group.x_end; ++dim) {
    if (x.Parts(dim) > 1) cut.push_back(dim);
  }
  const bool several = group.x_end > group.x_first + 1;
  return absl::InvalidArgumentError(
      absl::StrCat(DimsText(group.x_first, group.x_end), several ? " become " : " becomes ",
                   DimsText(group.y_first, group.y_end), ", and the input is cut in dim ", absl::StrJoin(cut, ", "),
                   " where a part of it would not be a block of the result"));
}

absl::Status CheckCells(const Layout& x, const Numbers& shape) {
  if (VolumeOf(x.shape()) == VolumeOf(shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a tensor of shape ", absl::StrJoin(x.shape(), "x"), " has ",
                                                 VolumeOf(x.shape()), " elements, one of shape ",
                                                 absl::StrJoin(shape, "x"), " has ", VolumeOf(shape)));
}

// How a group is cut whose parts in x are no blocks of the result: in one dim, in whole rows of the first dim of either
// shape. `spread` ranks share each part, and cut it in a dim outside of the group.
struct Recut {
  Group group;
  int dim = 0;
  int64_t parts = 1;
  int64_t spread = 1;
  int spread_dim = -1;
};

// What the ranks of each of x's parts of a group weigh together, in groups of `spread` parts that follow each other.
Numbers WeightsOf(const Layout& x, const Group& group, int64_t spread) {
  const Numbers parts = PartsOf(x, group);
  Numbers weights(VolumeOf(parts) / spread, 0);
  for (const int rank : x.mesh().ranks()) {
    const Numbers coords = *x.mesh().CoordsOf(rank);
    int64_t part = 0;
    for (int dim = group.x_first; dim < group.x_end; ++dim) {
      part = part * parts[dim - group.x_first] + x.PartOf(dim, coords);
    }
    weights[part / spread] += x.mesh().weights()->Of(rank);
  }
  return weights;
}

// `open`: the dims that may be cut further. Changes `sizes`, of the parts of each dim of x.
Recut RecutOf(const Layout& x, const Numbers& shape, const Group& group, const std::vector<int>& open,
              std::vector<Numbers>& sizes) {
  Recut recut{group, group.x_first};
  int of_y = group.y_first;
  while (x.shape()[recut.dim] == 1) ++recut.dim;
  while (shape[of_y] == 1) ++of_y;
  const int64_t ranks = VolumeOf(PartsOf(x, group));
  const int64_t row = VolumeOf(Slice(x.shape(), recut.dim + 1, group.x_end));
  const int64_t row_of_y = VolumeOf(Slice(shape, of_y + 1, group.y_end));
  const int64_t unit = std::lcm(row, row_of_y) / row, rows = x.shape()[recut.dim] / unit;
  const auto shortest = [&](int dim) { return *std::min_element(sizes[dim].begin(), sizes[dim].end()); };
  for (int dim : open) {
    if (recut.spread_dim < 0 || shortest(dim) > shortest(recut.spread_dim)) recut.spread_dim = dim;
  }
  recut.parts = ranks;
  if (recut.spread_dim >= 0 && rows < ranks) {
    while (recut.parts > rows || ranks % recut.parts != 0) --recut.parts;
    // Where no dim has cells for all of them, some ranks have none.
    if (shortest(recut.spread_dim) < ranks / recut.parts) recut.parts = ranks;
  }
  recut.spread = ranks / recut.parts;
  for (int dim = group.x_first; dim < group.x_end; ++dim) sizes[dim] = {x.shape()[dim]};
  sizes[recut.dim] = x.mesh().weights() == nullptr
                         ? BalancedSizes(rows, recut.parts)
                         : ProportionalSizes(rows, WeightsOf(x, group, recut.spread), rows >= recut.parts ? 1 : 0);
  for (int64_t& size : sizes[recut.dim]) size *= unit;
  if (recut.spread == 1) return recut;
  Numbers finer;
  for (int64_t size : sizes[recut.spread_dim]) {
    for (int64_t part : BalancedSizes(size, recut.spread)) finer.push_back(part);
  }
  sizes[recut.spread_dim] = std::move(finer);
  return recut;
}

// Puts another mesh of x's ranks together, axis by axis: the result's, or that of the layout to which x is moved.
class OtherMesh {
 public:
  explicit OtherMesh(const Layout& x) : x_(x), old_(x.mesh().axes(), 0) {}

  void Keep(int axis, Placement placement) {
    AddAxis(x_.mesh().shape()[axis], placement);
    steps_.push_back([this, axis](const int64_t*& coord) { old_[axis] = *coord++; });
  }
  void Add(const Group& group, const Grid& grid) {
    for (size_t dim = 0; dim < grid.sizes.size(); ++dim) {
      AddAxis(static_cast<int64_t>(grid.sizes[dim].size()), Placement::Split(group.y_first + static_cast<int>(dim)));
    }
    steps_.push_back([this, &group, &grid](const int64_t*& coord) {
      int64_t cell = 0;
      for (const Numbers& sizes : grid.sizes) cell = cell * static_cast<int64_t>(sizes.size()) + *coord++;
      SetPart(group, grid.part[cell]);
    });
  }
  // An axis for each dim of the group: AddSpread follows, which adds the last axes.
  void Add(const Recut& recut) {
    for (int dim = recut.group.x_first; dim < recut.group.x_end; ++dim) {
      AddAxis(dim == recut.dim ? recut.parts : 1, Placement::Split(dim));
    }
    steps_.push_back([this, &recut](const int64_t*& coord) {
      part_[&recut] = coord[recut.dim - recut.group.x_first] * recut.spread;
      coord += recut.group.x_end - recut.group.x_first;
    });
  }
  void AddSpread(const Recut& recut) {
    if (recut.spread > 1) AddAxis(recut.spread, Placement::Split(recut.spread_dim));
    steps_.push_back([this, &recut](const int64_t*& coord) {
      SetPart(recut.group, part_[&recut] + (recut.spread > 1 ? *coord++ : 0));
    });
  }
  absl::StatusOr<Mesh> Create() {
    std::vector<int> ranks;
    const Box whole = Box::Whole(shape_);
    for (int64_t i = 0; i < whole.Volume(); ++i) ranks.push_back(RankAt(whole.CellAt(i)));
    ADJOIN_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create(shape_, std::move(ranks)));
    return mesh.WithWeights(x_.mesh().weights());
  }
  const std::vector<Placement>& placements() const { return placements_; }

 private:
  void AddAxis(int64_t size, Placement placement) {
    shape_.push_back(size);
    placements_.push_back(placement);
  }

  int RankAt(const Numbers& coords) {
    const int64_t* next = coords.data();
    for (const auto& step : steps_) step(next);
    return x_.mesh().RankAt(old_);
  }

  // The coordinates of one of x's parts of a group, row-major in its dims.
  void SetPart(const Group& group, int64_t part) {
    const Numbers parts = Box::Whole(PartsOf(x_, group)).CellAt(part);
    for (int dim = group.x_first; dim < group.x_end; ++dim) SetPart(dim, parts[dim - group.x_first]);
  }
  void SetPart(int dim, int64_t part) {
    const std::vector<int> axes = x_.AxesOf(dim);
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      old_[*axis] = part % x_.mesh().shape()[*axis];
      part /= x_.mesh().shape()[*axis];
    }
  }

  const Layout& x_;
  Numbers old_;                           // coordinates in x's mesh
  std::map<const Recut*, int64_t> part_;  // the first of x's parts of the ranks that share one
  // In order of the axes: each takes the coordinates of its own.
  std::vector<std::function<void(const int64_t*&)>> steps_;
  Numbers shape_;
  std::vector<Placement> placements_;
};

// Nothing but empty parts: all axes that cut go to a dim without cells.
absl::StatusOr<Layout> OfNothing(const Layout& x, const Numbers& shape) {
  const int dim = static_cast<int>(std::find(shape.begin(), shape.end(), 0) - shape.begin());
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    // The first dims that are equal keep their cuts: the batch above all.
    const bool stays = [&] {
      if (placement.kind != Placement::Kind::kSplit) return true;
      for (int i = 0; i <= placement.dim; ++i) {
        if (i >= static_cast<int>(shape.size()) || x.shape()[i] != shape[i]) return false;
      }
      return true;
    }();
    if (!stays) placement = Placement::Split(dim);
  }
  Layout::Cuts cuts;
  for (const Placement& placement : placements) {
    if (placement.kind != Placement::Kind::kSplit || placement.dim == dim) continue;
    cuts[placement.dim] = SizesOf(x, placement.dim);
  }
  return Layout::Create(shape, x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

}  // namespace

absl::StatusOr<Layout> Reshaped(const Layout& x, const std::vector<int64_t>& shape) {
  ADJOIN_RETURN_IF_ERROR(CheckCells(x, shape));
  const Grouping grouping = GroupsOf(x.shape(), shape);
  if (grouping.empty) return OfNothing(x, shape);
  std::vector<size_t> group_of(x.dims());
  std::vector<Grid> grids(grouping.groups.size());
  for (size_t i = 0; i < grouping.groups.size(); ++i) {
    const Group& group = grouping.groups[i];
    for (int dim = group.x_first; dim < group.x_end; ++dim) group_of[dim] = i;
    if (group.same) continue;
    std::optional<Grid> grid = GridOf(x, shape, group);
    if (!grid.has_value()) return NoGrid(x, group);
    grids[i] = *std::move(grid);
  }
  OtherMesh mesh(x);
  Layout::Cuts cuts;
  std::vector<bool> added(grids.size());
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    const Placement& placement = x.placements()[axis];
    if (placement.kind != Placement::Kind::kSplit) {
      mesh.Keep(axis, placement);
      continue;
    }
    const size_t index = group_of[placement.dim];
    const Group& group = grouping.groups[index];
    if (group.same) {
      mesh.Keep(axis, Placement::Split(group.y_first));
      cuts[group.y_first] = SizesOf(x, placement.dim);
    } else if (!added[index]) {
      added[index] = true;
      mesh.Add(group, grids[index]);
      for (int dim = group.y_first; dim < group.y_end; ++dim) cuts[dim] = grids[index].sizes[dim - group.y_first];
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(Mesh made, mesh.Create());
  return Layout::Create(shape, x.dtype(), std::move(made), mesh.placements(), std::move(cuts));
}

absl::StatusOr<Layout> Reshapeable(const Layout& x, const std::vector<int64_t>& shape) {
  ADJOIN_RETURN_IF_ERROR(CheckCells(x, shape));
  std::vector<Numbers> sizes;
  for (int dim = 0; dim < x.dims(); ++dim) sizes.push_back(SizesOf(x, dim));
  const Grouping grouping = GroupsOf(x.shape(), shape);
  std::vector<int> open;
  for (const Group& group : grouping.groups) {
    if (group.same && group.x_first > 0) open.push_back(group.x_first);
  }
  std::vector<Recut> recuts;
  std::vector<int> recut_of(x.dims(), -1);
  for (const Group& group : grouping.groups) {
    if (group.same || GridOf(x, shape, group).has_value()) continue;
    std::fill(recut_of.begin() + group.x_first, recut_of.begin() + group.x_end, static_cast<int>(recuts.size()));
    // The ranks of a cut batch stay with it.
    recuts.push_back(RecutOf(x, shape, group, group.x_first > 0 ? open : std::vector<int>(), sizes));
  }
  OtherMesh mesh(x);
  std::vector<bool> added(recuts.size());
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    const Placement& placement = x.placements()[axis];
    const int recut = placement.kind == Placement::Kind::kSplit ? recut_of[placement.dim] : -1;
    if (recut < 0) {
      mesh.Keep(axis, placement);
    } else if (!added[recut]) {
      added[recut] = true;
      mesh.Add(recuts[recut]);
    }
  }
  for (const Recut& recut : recuts) mesh.AddSpread(recut);
  Layout::Cuts cuts;
  for (const Placement& placement : mesh.placements()) {
    if (placement.kind == Placement::Kind::kSplit) cuts[placement.dim] = sizes[placement.dim];
  }
  ADJOIN_ASSIGN_OR_RETURN(Mesh made, mesh.Create());
  return Layout::Create(x.shape(), x.dtype(), std::move(made), mesh.placements(), std::move(cuts));
}

}  // namespace adjoin
