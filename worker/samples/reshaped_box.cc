#include "worker/samples/reshaped_box.h"

#include <functional>
#include <utility>

#include "worker/data/box_runs.h"

namespace adjoin {
namespace {

using Intervals = std::vector<Interval>;

// Neighbouring dims of both shapes that have as many cells: the shortest such lists.
struct Group {
  std::vector<int64_t> seen;
  Intervals box;  // in `seen`
  std::vector<int64_t> own;
};

// A part of a group: a box of its own dims, whose cells are one run of cells in the box that was asked for.
struct GroupPart {
  Intervals box;
  int64_t at = 0;
  int64_t cells = 0;
};

// Dims of extent 1 join the group before them, the first ones that after them.
std::vector<Group> GroupsOf(const std::vector<int64_t>& seen, const Box& box, const std::vector<int64_t>& own) {
  std::vector<Group> groups;
  size_t i = 0;
  size_t j = 0;
  while (i < seen.size() || j < own.size()) {
    Group group;
    int64_t seen_cells = 1;
    int64_t own_cells = 1;
    const auto take_seen = [&] {
      seen_cells *= seen[i];
      group.seen.push_back(seen[i]);
      group.box.push_back(box[static_cast<int>(i)]);
      ++i;
    };
    const auto take_own = [&] {
      own_cells *= own[j];
      group.own.push_back(own[j]);
      ++j;
    };
    while (seen_cells == 1 && i < seen.size()) take_seen();
    while (own_cells == 1 && j < own.size()) take_own();
    while (seen_cells != own_cells) seen_cells < own_cells ? take_seen() : take_own();
    while (i < seen.size() && seen[i] == 1) take_seen();
    while (j < own.size() && own[j] == 1) take_own();
    groups.push_back(std::move(group));
  }
  return groups;
}

// Cells `lo` to `hi` of the dims from `dim` on, in row-major order, as boxes in that order.
void AddBoxes(const std::vector<int64_t>& shape, size_t dim, int64_t lo, int64_t hi, Intervals& before,
              const std::function<void(const Intervals&)>& add) {
  if (lo >= hi) return;
  if (dim == shape.size()) return add(before);
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const auto within_row = [&](int64_t row, int64_t from, int64_t to) {
    before.push_back({row, row + 1});
    AddBoxes(shape, dim + 1, from, to, before, add);
    before.pop_back();
  };
  int64_t first = lo / inner;
  const int64_t last = hi / inner;
  if (lo % inner != 0 && first == last) return within_row(first, lo % inner, hi % inner);
  if (lo % inner != 0) within_row(first++, lo % inner, inner);
  if (first < last) {
    Intervals box = before;
    box.push_back({first, last});
    for (size_t d = dim + 1; d < shape.size(); ++d) box.push_back({0, shape[d]});
    add(box);
  }
  if (hi % inner != 0) within_row(last, 0, hi % inner);
}

std::vector<GroupPart> PartsOf(const Group& group) {
  // One long dim on both sides: its interval, and [0, 1) in the others.
  int seen_long = -1, own_long = -1, seen_count = 0, own_count = 0;
  for (size_t d = 0; d < group.seen.size(); ++d) {
    if (group.seen[d] > 1) ++seen_count, seen_long = static_cast<int>(d);
  }
  for (size_t d = 0; d < group.own.size(); ++d) {
    if (group.own[d] > 1) ++own_count, own_long = static_cast<int>(d);
  }
  if (seen_count <= 1 && own_count <= 1) {
    GroupPart part{Intervals(group.own.size(), Interval{0, 1}), 0, 1};
    if (seen_long >= 0) {
      part.box[own_long] = group.box[seen_long];
      part.cells = group.box[seen_long].size();
    }
    return {part};
  }
  std::vector<GroupPart> parts;
  int64_t at = 0;
  for (const CellRun& run : RunsOf(group.seen, Box(group.box))) {
    Intervals before;
    AddBoxes(group.own, 0, run.first, run.first + run.count, before, [&](const Intervals& box) {
      const int64_t cells = Box(box).Volume();
      parts.push_back({box, at, cells});
      at += cells;
    });
  }
  return parts;
}

}  // namespace

ReshapedBox BoxesUnder(const std::vector<int64_t>& seen, const Box& box, const std::vector<int64_t>& own) {
  ReshapedBox reshaped;
  const std::vector<Group> groups = GroupsOf(seen, box, own);
  for (const Group& group : groups) reshaped.extents.push_back(Box(group.box).Volume());
  if (box.empty()) return reshaped;
  reshaped.parts.emplace_back();
  for (const Group& group : groups) {
    const std::vector<GroupPart> own_parts = PartsOf(group);
    std::vector<ReshapedPart> parts;
    for (const ReshapedPart& part : reshaped.parts) {
      for (const GroupPart& own_part : own_parts) {
        Intervals dims;
        for (int d = 0; d < part.box.dims(); ++d) dims.push_back(part.box[d]);
        dims.insert(dims.end(), own_part.box.begin(), own_part.box.end());
        parts.push_back({Box(std::move(dims)), part.at, part.extents});
        parts.back().at.push_back(own_part.at);
        parts.back().extents.push_back(own_part.cells);
      }
    }
    reshaped.parts = std::move(parts);
  }
  return reshaped;
}

}  // namespace adjoin
