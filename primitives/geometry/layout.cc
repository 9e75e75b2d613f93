#include "primitives/geometry/layout.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/rank_weights.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

std::string ReduceText(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kMin: return "min";
  }
  return "";
}

std::vector<int64_t> BoundariesOf(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> boundaries;
  boundaries.reserve(sizes.size() + 1);
  boundaries.push_back(0);
  for (int64_t size : sizes) boundaries.push_back(boundaries.back() + size);
  return boundaries;
}

// Balanced over the outer axis, then each part over the next one: not the same as one flat cut.
std::vector<int64_t> NestedBalancedSizes(int64_t extent, const std::vector<int64_t>& axis_sizes) {
  std::vector<int64_t> sizes = {extent};
  for (int64_t parts : axis_sizes) {
    std::vector<int64_t> finer;
    finer.reserve(sizes.size() * parts);
    for (int64_t size : sizes) {
      for (int64_t part = 0; part < parts; ++part) finer.push_back(size / parts + (part < size % parts ? 1 : 0));
    }
    sizes = std::move(finer);
  }
  return sizes;
}

// What the ranks of each part weigh together, in the parts' order. `axes`: those that split the dim.
std::vector<int64_t> WeightsOfParts(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<int64_t> stride(mesh.axes(), 0);  // of the part's number, by axis
  int64_t parts = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    stride[*axis] = parts;
    parts *= mesh.shape()[*axis];
  }
  std::vector<int64_t> weights(parts, 0), coords(mesh.axes(), 0);
  int64_t part = 0;
  for (const int rank : mesh.ranks()) {
    weights[part] += mesh.weights()->Of(rank);
    for (int axis = mesh.axes() - 1; axis >= 0; --axis) {
      part += stride[axis];
      if (++coords[axis] < mesh.shape()[axis]) break;
      part -= stride[axis] * coords[axis];
      coords[axis] = 0;
    }
  }
  return weights;
}

// In proportion over the outer axis, then each part over the next one.
std::vector<int64_t> NestedProportionalSizes(int64_t extent, const Mesh& mesh, const std::vector<int>& axes) {
  const std::vector<int64_t> weights = WeightsOfParts(mesh, axes);
  std::vector<int64_t> sizes = {extent};
  auto inner = static_cast<int64_t>(weights.size());  // parts of each of `sizes`
  for (const int axis : axes) {
    const int64_t parts = mesh.shape()[axis];
    inner /= parts;
    std::vector<int64_t> finer;
    auto next = weights.begin();
    for (const int64_t size : sizes) {
      std::vector<int64_t> of_parts;
      for (int64_t i = 0; i < parts; ++i, next += inner) {
        of_parts.push_back(std::accumulate(next, next + inner, int64_t{0}));
      }
      // A cell for each of the parts within, as far as the even cut has them.
      for (int64_t part : ProportionalSizes(size, of_parts, std::min(inner, size / parts))) finer.push_back(part);
    }
    sizes = std::move(finer);
  }
  return sizes;
}

// The sizes of `dim`'s parts: what `cuts` says, checked, or balanced. `axes`: those of the mesh that split it.
absl::StatusOr<std::vector<int64_t>> CutDim(int dim, int64_t extent, const Mesh& mesh, const std::vector<int>& axes,
                                            const Layout::Cuts& cuts) {
  std::vector<int64_t> axis_sizes;
  for (const int axis : axes) axis_sizes.push_back(mesh.shape()[axis]);
  auto it = cuts.find(dim);
  if (it == cuts.end()) {
    return mesh.weights() == nullptr || axes.empty() ? NestedBalancedSizes(extent, axis_sizes)
                                                     : NestedProportionalSizes(extent, mesh, axes);
  }
  if (axis_sizes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("cuts are given for dim ", dim, ", which no mesh axis splits"));
  }
  const std::vector<int64_t>& sizes = it->second;
  int64_t parts = 1;
  for (int64_t size : axis_sizes) parts *= size;
  if (static_cast<int64_t>(sizes.size()) != parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim ", dim, " is cut into ", parts, " parts, but ", sizes.size(), " sizes are given"));
  }
  int64_t rest = extent;
  for (int64_t size : sizes) {
    if (size < 0) {
      return absl::InvalidArgumentError(absl::StrCat("a part of dim ", dim, " has the negative size ", size));
    }
    rest = size > rest ? -1 : rest - size;
    if (rest < 0) break;  // before a sum of bad sizes can overflow
  }
  if (rest != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the cuts ", absl::StrJoin(sizes, ","), " of dim ", dim, " do not sum to its extent ", extent));
  }
  return sizes;
}

absl::Status CheckShape(const std::vector<int64_t>& shape) {
  for (int64_t extent : shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor of shape ", ShapeText(shape), " has a negative extent"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Placement> Placement::Parse(absl::string_view text) {
  if (text == "B") return Broadcast();
  if (text == "P" || text == "P(sum)") return Partial();
  if (text == "P(max)") return Partial(ReduceOp::kMax);
  if (text == "P(min)") return Partial(ReduceOp::kMin);
  int dim = -1;
  if (text.size() > 3 && text.substr(0, 2) == "S(" && text.back() == ')' &&
      absl::SimpleAtoi(text.substr(2, text.size() - 3), &dim) && dim >= 0) {
    return Split(dim);
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text,
                                                 "\" is not a placement; these are: S(<dim>) with a dim"
                                                 " from 0, B, P, P(sum), P(max), P(min)"));
}

std::string Placement::ToString() const {
  switch (kind) {
    case Kind::kSplit: return absl::StrCat("S(", dim, ")");
    case Kind::kBroadcast: return "B";
    case Kind::kPartial: return absl::StrCat("P(", ReduceText(reduce), ")");
  }
  return "";
}

std::vector<int64_t> BalancedSizes(int64_t n, int64_t parts) {
  std::vector<int64_t> sizes(parts, n / parts);
  for (int64_t i = 0; i < n % parts; ++i) ++sizes[i];
  return sizes;
}

absl::StatusOr<Layout> Layout::Create(std::vector<int64_t> shape, DType dtype, Mesh mesh,
                                      std::vector<Placement> placements, Cuts cuts) {
  ADJOIN_RETURN_IF_ERROR(CheckShape(shape));
  if (static_cast<int>(placements.size()) != mesh.axes()) {
    return absl::InvalidArgumentError(absl::StrCat("mesh ", mesh.ToString(), " has ", mesh.axes(), " axes, but ",
                                                   placements.size(), " placements are given"));
  }
  const int dims = static_cast<int>(shape.size());
  for (const Placement& placement : placements) {
    if (placement.kind == Kind::kSplit && (placement.dim < 0 || placement.dim >= dims)) {
      return absl::InvalidArgumentError(absl::StrCat("placement ", placement.ToString(), " names a dim that a tensor",
                                                     " of ", dims, " dims (", ShapeText(shape), ") does not have"));
    }
  }
  for (const auto& cut : cuts) {
    if (cut.first < 0 || cut.first >= dims) {
      return absl::InvalidArgumentError(absl::StrCat("cuts are given for dim ", cut.first, " of a tensor of ", dims,
                                                     " dims (", ShapeText(shape), ")"));
    }
  }
  Layout layout(std::move(shape), dtype, std::move(mesh), std::move(placements));
  layout.boundaries_.reserve(dims);
  for (int dim = 0; dim < dims; ++dim) {
    const std::vector<int> axes = layout.AxesOf(dim);
    if (axes.empty() && cuts.empty()) {
      layout.boundaries_.push_back({0, layout.shape_[dim]});
      continue;
    }
    ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, CutDim(dim, layout.shape_[dim], layout.mesh_, axes, cuts));
    layout.boundaries_.push_back(BoundariesOf(sizes));
  }
  return layout;
}

absl::StatusOr<Layout> Layout::Partition(std::vector<int64_t> shape, DType dtype, std::vector<int64_t> partition,
                                         std::vector<int> ranks, Cuts cuts) {
  if (partition.size() != shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("partition ", absl::StrJoin(partition, "x"), " has ",
                                                   partition.size(), " numbers for a tensor of ", shape.size(),
                                                   " dims (", ShapeText(shape), "); it needs one per dim"));
  }
  std::vector<Placement> placements;
  for (size_t dim = 0; dim < shape.size(); ++dim) placements.push_back(Placement::Split(static_cast<int>(dim)));
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create(std::move(partition), std::move(ranks)));
  return Create(std::move(shape), dtype, std::move(mesh), std::move(placements), std::move(cuts));
}

Layout Layout::Owner(std::vector<int64_t> shape, DType dtype, int rank) {
  return Replicated(std::move(shape), dtype, {rank}).value();
}

absl::StatusOr<Layout> Layout::Replicated(std::vector<int64_t> shape, DType dtype, std::vector<int> ranks) {
  const int64_t count = static_cast<int64_t>(ranks.size());
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({count}, std::move(ranks)));
  return Create(std::move(shape), dtype, std::move(mesh), {Placement::Broadcast()});
}

std::vector<int> Layout::AxesOf(int dim) const {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (placements_[axis].kind == Kind::kSplit && placements_[axis].dim == dim) axes.push_back(axis);
  }
  return axes;
}

bool Layout::HasKind(Placement::Kind kind) const {
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (placements_[axis].kind == kind && mesh_.shape()[axis] > 1) return true;
  }
  return false;
}

int64_t Layout::PartOf(int dim, const std::vector<int64_t>& coords) const {
  int64_t part = 0;
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (placements_[axis].kind == Kind::kSplit && placements_[axis].dim == dim) {
      part = part * mesh_.shape()[axis] + coords[axis];
    }
  }
  return part;
}

Box Layout::BoxOf(int rank) const {
  const std::optional<std::vector<int64_t>> coords = mesh_.CoordsOf(rank);
  if (!coords.has_value()) return Box::Nothing(dims());
  std::vector<Interval> intervals;
  intervals.reserve(dims());
  for (int dim = 0; dim < dims(); ++dim) {
    const int64_t part = PartOf(dim, *coords);
    intervals.push_back({boundaries_[dim][part], boundaries_[dim][part + 1]});
  }
  return Box(std::move(intervals));
}

absl::StatusOr<Layout> Layout::Dual() const {
  Layout dual = *this;
  for (Placement& placement : dual.placements_) {
    if (placement.kind == Kind::kBroadcast) {
      placement = Placement::Partial();
    } else if (placement.kind == Kind::kPartial) {
      if (placement.reduce != ReduceOp::kSum) {
        return absl::InvalidArgumentError(
            absl::StrCat("layout ", ToString(), " has no dual: ", placement.ToString(), " is not linear"));
      }
      placement = Placement::Broadcast();
    }
  }
  return dual;
}

absl::StatusOr<Layout> Layout::WithShape(std::vector<int64_t> shape) const {
  if (shape.size() != shape_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout ", ToString(), " has ", dims(), " dims; shape ", ShapeText(shape), " has ", shape.size()));
  }
  Cuts cuts;
  for (int dim = 0; dim < dims(); ++dim) {
    if (shape[dim] == shape_[dim] && !AxesOf(dim).empty()) cuts[dim] = PartSizes(*this, dim);
  }
  return Create(std::move(shape), dtype_, mesh_, placements_, std::move(cuts));
}

absl::StatusOr<Layout> Layout::WithPlacements(std::vector<Placement> placements) const {
  Cuts cuts;
  for (int dim = 0; dim < dims(); ++dim) {
    if (!AxesOf(dim).empty()) cuts[dim] = PartSizes(*this, dim);
  }
  return Create(shape_, dtype_, mesh_, std::move(placements), std::move(cuts));
}

Layout Layout::WithDType(DType dtype) const {
  Layout layout = *this;
  layout.dtype_ = dtype;
  return layout;
}

std::string Layout::ToString() const {
  std::string text = absl::StrCat(adjoin::ToString(dtype_), " ", ShapeText(shape_), " on ", mesh_.ToString());
  for (const Placement& placement : placements_) absl::StrAppend(&text, " ", placement.ToString());
  for (int dim = 0; dim < dims(); ++dim) {
    std::vector<int64_t> axis_sizes;
    for (int axis : AxesOf(dim)) axis_sizes.push_back(mesh_.shape()[axis]);
    if (boundaries_[dim] == BoundariesOf(NestedBalancedSizes(shape_[dim], axis_sizes))) continue;
    absl::StrAppend(&text, " cut ", dim, ":", absl::StrJoin(PartSizes(*this, dim), ","));
  }
  return text;
}

std::vector<int64_t> PartSizes(const Layout& layout, int dim) {
  const std::vector<int64_t>& boundaries = layout.Boundaries(dim);
  std::vector<int64_t> sizes;
  for (size_t part = 0; part + 1 < boundaries.size(); ++part) sizes.push_back(boundaries[part + 1] - boundaries[part]);
  return sizes;
}

bool operator==(const Layout& a, const Layout& b) {
  return a.shape_ == b.shape_ && a.dtype_ == b.dtype_ && a.mesh_ == b.mesh_ && a.placements_ == b.placements_ &&
         a.boundaries_ == b.boundaries_;
}

}  // namespace adjoin
