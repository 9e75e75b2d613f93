#include "primitives/geometry/reshape.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/mesh.h"

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

// Puts the result's mesh together, axis by axis.
class MeshOfResult {
 public:
  explicit MeshOfResult(const Layout& x) : x_(x), old_(x.mesh().axes(), 0) {}

  void Keep(int axis, Placement placement) {
    steps_.push_back({axis, nullptr, nullptr});
    shape_.push_back(x_.mesh().shape()[axis]);
    placements_.push_back(placement);
  }
  void Add(const Group& group, const Grid& grid) {
    steps_.push_back({-1, &group, &grid});
    for (size_t dim = 0; dim < grid.sizes.size(); ++dim) {
      shape_.push_back(static_cast<int64_t>(grid.sizes[dim].size()));
      placements_.push_back(Placement::Split(group.y_first + static_cast<int>(dim)));
    }
  }
  absl::StatusOr<Mesh> Create() {
    std::vector<int> ranks;
    const Box whole = Box::Whole(shape_);
    for (int64_t i = 0; i < whole.Volume(); ++i) ranks.push_back(RankAt(whole.CellAt(i)));
    return Mesh::Create(shape_, std::move(ranks));
  }
  const std::vector<Placement>& placements() const { return placements_; }

 private:
  // An axis of the input's mesh, or those of a group.
  struct Step {
    int axis;
    const Group* group;
    const Grid* grid;
  };

  int RankAt(const Numbers& coords) {
    size_t next = 0;
    for (const Step& step : steps_) {
      if (step.group == nullptr) {
        old_[step.axis] = coords[next++];
        continue;
      }
      int64_t cell = 0;
      for (const Numbers& sizes : step.grid->sizes) cell = cell * static_cast<int64_t>(sizes.size()) + coords[next++];
      const Numbers parts = Box::Whole(PartsOf(x_, *step.group)).CellAt(step.grid->part[cell]);
      for (int dim = step.group->x_first; dim < step.group->x_end; ++dim)
        SetPart(dim, parts[dim - step.group->x_first]);
    }
    return x_.mesh().RankAt(old_);
  }

  void SetPart(int dim, int64_t part) {
    const std::vector<int> axes = x_.AxesOf(dim);
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      old_[*axis] = part % x_.mesh().shape()[*axis];
      part /= x_.mesh().shape()[*axis];
    }
  }

  const Layout& x_;
  Numbers old_;
  std::vector<Step> steps_;
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
  MeshOfResult mesh(x);
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
  Numbers partition;
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    partition.push_back(x.Parts(dim));
    cuts[dim] = SizesOf(x, dim);
  }
  const Grouping grouping = GroupsOf(x.shape(), shape);
  for (const Group& group : grouping.groups) {
    if (group.same || GridOf(x, shape, group).has_value()) continue;
    const int64_t parts = VolumeOf(PartsOf(x, group));
    int first = group.x_first, of_y = group.y_first;
    while (x.shape()[first] == 1) ++first;
    while (shape[of_y] == 1) ++of_y;
    // Whole rows of the first dim of either.
    const int64_t row = VolumeOf(Slice(x.shape(), first + 1, group.x_end));
    const int64_t row_of_y = VolumeOf(Slice(shape, of_y + 1, group.y_end));
    const int64_t unit = std::lcm(row, row_of_y) / row;
    for (int dim = group.x_first; dim < group.x_end; ++dim) {
      partition[dim] = 1;
      cuts[dim] = {x.shape()[dim]};
    }
    partition[first] = parts;
    cuts[first] = BalancedSizes(x.shape()[first] / unit, parts);
    for (int64_t& size : cuts[first]) size *= unit;
  }
  std::vector<int> ranks = x.mesh().ranks();
  ranks.resize(VolumeOf(partition));
  return Layout::Partition(x.shape(), x.dtype(), std::move(partition), std::move(ranks), std::move(cuts));
}

}  // namespace adjoin
