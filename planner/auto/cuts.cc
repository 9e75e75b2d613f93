#include "planner/auto/cuts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

constexpr int kFewRanks = 8;

// Adds all cuts by `ranks` ranks, of the dims from `dim` on; `dim` beyond the last one stands for the outputs.
void AddCuts(const std::vector<int64_t>& shape, bool outputs, int dim, int left, int axes_left, WorkCut& cut,
             std::vector<WorkCut>& cuts) {
  if (left == 1) {
    cuts.push_back(cut);
    return;
  }
  const int dims = static_cast<int>(shape.size());
  if (axes_left == 0 || dim > dims || (dim == dims && !outputs)) return;
  for (int parts = 2; parts <= left; ++parts) {
    if (left % parts != 0 || (dim < dims && parts > shape[dim])) continue;
    cut.axis.push_back({parts, dim < dims ? dim : 0, dim == dims});
    AddCuts(shape, outputs, dim + 1, left / parts, axes_left - 1, cut, cuts);
    cut.axis.pop_back();
  }
  AddCuts(shape, outputs, dim + 1, left, axes_left, cut, cuts);
}

// Returns whether a cut of three dims, of which there are many on many ranks, is likely to pay: of the batch or spatial
// dims, or of the batch and the outputs with one of these. A cut that leaves ranks with half of the work of others
// never does.
bool IsLikely(const WorkCut& cut, const std::vector<int64_t>& shape) {
  double uneven = 1;
  int spatial = 0;
  bool batch = false, outputs = false, channels = false;
  for (const WorkCut::Axis& axis : cut.axis) {
    outputs = outputs || axis.outputs;
    if (axis.outputs) continue;
    batch = batch || axis.dim == 0;
    channels = channels || axis.dim == 1;
    spatial += axis.dim > 1;
    const int64_t extent = shape[axis.dim];
    const int64_t longest = (extent + axis.parts - 1) / axis.parts;
    uneven *= static_cast<double>(longest * axis.parts) / static_cast<double>(extent);
  }
  if (cut.axis.size() > 1 && uneven > 1.5) return false;
  if (cut.axis.size() < 3) return true;
  return !channels && (batch || (spatial == 3 && !outputs));
}

LayoutSpec MeshLayout(const std::vector<int>& sizes, const std::vector<std::string>& placements) {
  LayoutSpec layout;
  std::string name = absl::StrJoin(sizes, "x");
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    layout.add_mesh()->set_size(static_cast<uint32_t>(sizes[axis]));
    layout.add_sbp(placements[axis]);
    std::string plain = placements[axis];
    plain.erase(std::remove_if(plain.begin(), plain.end(), [](char c) { return c == '(' || c == ')'; }), plain.end());
    absl::StrAppend(&name, ".", plain);
  }
  layout.set_name(name);
  return layout;
}

}  // namespace

std::vector<WorkCut> CutsOf(const std::vector<int64_t>& shape, bool outputs, int ranks) {
  std::vector<WorkCut> cuts;
  const bool many = ranks > kFewRanks;
  for (int used = 1; used <= ranks; ++used) {
    if (ranks % used != 0) continue;
    WorkCut cut;
    cut.ranks = used;
    AddCuts(shape, outputs, 0, used, used == ranks ? kMostCutDims : many ? 1 : 2, cut, cuts);
  }
  if (!many) return cuts;
  cuts.erase(std::remove_if(cuts.begin(), cuts.end(), [&](const WorkCut& cut) { return !IsLikely(cut, shape); }),
             cuts.end());
  return cuts;
}

LayoutSpec InputLayout(const WorkCut& cut, const std::vector<int64_t>& of, const std::vector<int64_t>& shape) {
  const int fewer = static_cast<int>(of.size()) - static_cast<int>(shape.size());
  std::vector<int> sizes;
  std::vector<std::string> placements;
  std::vector<uint32_t> partition(shape.size(), 1);
  bool whole = shape.empty();
  for (const WorkCut::Axis& axis : cut.axis) {
    const int dim = axis.dim - fewer;
    const bool splits = !axis.outputs && dim >= 0 && dim < static_cast<int>(shape.size()) && shape[dim] >= axis.parts;
    whole = whole || !splits;
    sizes.push_back(axis.parts);
    placements.push_back(splits ? absl::StrCat("S(", dim, ")") : "B");
    if (splits) partition[dim] = static_cast<uint32_t>(axis.parts);
  }
  if (whole && !cut.axis.empty()) return MeshLayout(sizes, placements);
  if (whole) return MeshLayout({1}, {"B"});
  LayoutSpec layout;
  layout.set_name(absl::StrJoin(partition, "x"));
  layout.mutable_partition()->Add(partition.begin(), partition.end());
  return layout;
}

LayoutSpec OutputLayout(const WorkCut& cut, int dims, int dim) {
  std::vector<int> sizes;
  std::vector<std::string> placements;
  for (const WorkCut::Axis& axis : cut.axis) {
    sizes.push_back(axis.parts);
    placements.push_back(absl::StrCat("S(", axis.outputs ? dim : std::min(axis.dim, dims - 1), ")"));
  }
  return MeshLayout(sizes, placements);
}

std::string Describe(const WorkCut& cut) {
  if (cut.axis.empty()) return "one rank";
  return absl::StrJoin(cut.axis, " ", [](std::string* out, const WorkCut::Axis& axis) {
    absl::StrAppend(out,
                    axis.outputs    ? "outputs"
                    : axis.dim == 0 ? "batch"
                                    : absl::StrCat("dim", axis.dim),
                    "/", axis.parts);
  });
}

}  // namespace adjoin
