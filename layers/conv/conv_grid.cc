#include "layers/conv/conv_grid.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using Sizes = std::vector<int64_t>;

// The parts of a dim that is cut over an outer axis, in units, and each unit over an inner one.
Sizes Nested(const Sizes& outer, const Sizes& inner) {
  Sizes sizes;
  for (int64_t units : outer) {
    for (int64_t size : inner) sizes.push_back(units * size);
  }
  return sizes;
}

// What `sizes` count in units of `unit`; nothing where a part ends within one.
std::optional<Sizes> InUnits(const Sizes& sizes, int64_t unit) {
  Sizes units;
  for (int64_t size : sizes) {
    if (size % unit != 0) return std::nullopt;
    units.push_back(size / unit);
  }
  return units;
}

// The parts of one unit where all `count` units are cut alike; nothing where they are not.
std::optional<Sizes> WithinUnit(const Sizes& sizes, int64_t count, int64_t unit) {
  const int64_t parts = static_cast<int64_t>(sizes.size());
  if (parts % count != 0) return std::nullopt;
  const Sizes inner(sizes.begin(), sizes.begin() + parts / count);
  if (std::accumulate(inner.begin(), inner.end(), int64_t{0}) != unit) return std::nullopt;
  if (Nested(Sizes(count, 1), inner) != sizes) return std::nullopt;
  return inner;
}

// [out, in], or one number for each dim of the weight. Errors: of both.
absl::StatusOr<Layout> ResolveWeight(const LayerRequest& request, const Sizes& weight) {
  const auto resolve = [&](const Sizes& shape) {
    return request.layouts.Resolve(request.spec.w(), shape, request.parameter_dtype);
  };
  auto two = resolve({weight[0], weight[1]});
  if (two.ok()) return two;
  auto all = resolve(weight);
  if (!all.ok()) {
    return InvalidSpec("w cuts the weight, ", ShapeText(weight),
                       ", in its first two dims or in all of them: ", two.status().message(), "; ",
                       all.status().message());
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout even, Layout::Create(weight, all->dtype(), all->mesh(), all->placements()));
  for (int dim = 2; dim < all->dims(); ++dim) {
    if (all->Boundaries(dim) == even.Boundaries(dim)) continue;
    return InvalidSpec("layout \"", request.spec.w(), "\" has a cut of dim ", dim,
                       " of the weight; kernels are whole on every rank, and parts of that dim are parts of the input's"
                       " and the output's: cut those, in x and y");
  }
  return all;
}

}  // namespace

absl::StatusOr<ConvGrid> ConvGrid::Create(const LayerRequest& request, const ConvExtents& extents) {
  const Layout& x = request.input[0];
  if (request.spec.w().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(ConvGrid grid, FromInput(x, extents));
    ADJOIN_ASSIGN_OR_RETURN(const Layout y, OutputLayout(request, extents.output, x));
    if (!request.spec.y().empty()) grid.CutOutputsLike(y);
    return grid;
  }
  auto w = ResolveWeight(request, extents.weight);
  if (!w.ok()) return AtField("w", w.status());
  return FromWeight(*w, x, extents);
}

absl::StatusOr<ConvGrid> ConvGrid::FromInput(const Layout& x, const ConvExtents& extents) {
  ConvGrid grid(x.mesh());
  const int64_t per_group = extents.in / extents.groups;
  const Sizes sizes = PartSizes(x, 1);
  ConvAxis::Kind channels = ConvAxis::Kind::kGroup;
  grid.in_ = {per_group};
  std::optional<Sizes> within;
  if (auto groups = InUnits(sizes, per_group)) {
    grid.groups_ = *groups;
  } else if (extents.groups == 1) {
    channels = ConvAxis::Kind::kIn;
    grid.groups_ = {1};
    grid.in_ = sizes;
  } else if ((within = WithinUnit(sizes, extents.groups, per_group))) {
    grid.groups_ = Sizes(extents.groups, 1);
    grid.in_ = *within;
  } else {
    grid.groups_ = BalancedSizes(extents.groups, static_cast<int64_t>(sizes.size()));
  }
  grid.out_ = {extents.out / extents.groups};
  for (const Placement& placement : x.placements()) {
    if (placement.kind != Placement::Kind::kSplit) {
      grid.axes_.push_back({ConvAxis::Kind::kCopies});
    } else if (placement.dim == 1) {
      grid.axes_.push_back({channels});
    } else {
      grid.axes_.push_back({ConvAxis::Kind::kDim, placement.dim});
    }
  }
  if (within.has_value()) {
    const int64_t parts = static_cast<int64_t>(within->size());
    ADJOIN_RETURN_IF_ERROR(
        grid.Regroup(x.AxesOf(1), {}, {{extents.groups, ConvAxis::Kind::kGroup}, {parts, ConvAxis::Kind::kIn}}));
  }
  return grid;
}

// Axes along which the input is the same and y is cut in its channels, on one mesh: each rank computes its own.
void ConvGrid::CutOutputsLike(const Layout& y) {
  if (y.mesh() != mesh_ || groups_ != Sizes{1}) return;
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (axes_[axis].kind == ConvAxis::Kind::kCopies && y.placements()[axis] == Placement::Split(1)) {
      axes_[axis].kind = ConvAxis::Kind::kOut;
    }
  }
  const int64_t parts = Parts(ConvAxis::Kind::kOut);
  out_ = parts == y.Parts(1) ? PartSizes(y, 1) : BalancedSizes(out_[0], parts);
}

absl::StatusOr<ConvGrid> ConvGrid::FromWeight(const Layout& w, const Layout& x, const ConvExtents& extents) {
  ConvGrid grid(w.mesh());
  const int out_dim = extents.transposed ? 1 : 0;
  std::vector<int> extra;
  for (int axis = 0; axis < w.mesh().axes(); ++axis) {
    const Placement& placement = w.placements()[axis];
    if (placement.kind != Placement::Kind::kSplit) {
      grid.axes_.push_back({ConvAxis::Kind::kCopies});
      if (w.mesh().shape()[axis] > 1) extra.push_back(axis);
    } else if (placement.dim > 1) {
      grid.axes_.push_back({ConvAxis::Kind::kDim, placement.dim});
    } else {
      grid.axes_.push_back({placement.dim == out_dim ? ConvAxis::Kind::kOut : ConvAxis::Kind::kIn});
    }
  }
  grid.NameExtraAxes(extra, x);
  if (extents.groups > 1) {
    ADJOIN_RETURN_IF_ERROR(grid.GroupWeightAxes(w, extents));
  } else {
    grid.groups_ = {1};
    grid.out_ = PartSizes(w, out_dim);
    grid.in_ = PartSizes(w, 1 - out_dim);
  }
  return grid;
}

// Axes along which all ranks have the same weight: they cut what the input's axes cut, if these are as many of the same
// sizes; else the batch.
void ConvGrid::NameExtraAxes(const std::vector<int>& extra, const Layout& x) {
  Sizes mine, its;
  std::vector<int> dims;
  for (int axis : extra) mine.push_back(mesh_.shape()[axis]);
  for (int axis = 0; axis < x.mesh().axes(); ++axis) {
    const Placement& placement = x.placements()[axis];
    if (placement.kind != Placement::Kind::kSplit || placement.dim == 1 || x.mesh().shape()[axis] == 1) continue;
    its.push_back(x.mesh().shape()[axis]);
    dims.push_back(placement.dim);
  }
  for (size_t i = 0; i < extra.size(); ++i) axes_[extra[i]] = {ConvAxis::Kind::kDim, mine == its ? dims[i] : 0};
}

// In a weight with several groups dim 0 counts the channels of all groups and dim 1 those of one. Ranks get whole
// groups, or parts of one group each where their number along dim 0 is a multiple of the groups'.
absl::Status ConvGrid::GroupWeightAxes(const Layout& w, const ConvExtents& extents) {
  const ConvAxis::Kind kind0 = extents.transposed ? ConvAxis::Kind::kIn : ConvAxis::Kind::kOut;
  const ConvAxis::Kind kind1 = extents.transposed ? ConvAxis::Kind::kOut : ConvAxis::Kind::kIn;
  const int64_t groups = extents.groups, per_group = extents.weight[0] / groups;
  const int64_t parts0 = w.Parts(0), parts1 = w.Parts(1);
  const Sizes sizes0 = PartSizes(w, 0);
  Sizes within0 = {per_group}, within1 = PartSizes(w, 1);
  std::vector<std::pair<int64_t, ConvAxis::Kind>> as = {{parts0, ConvAxis::Kind::kGroup}, {parts1, kind1}};
  const std::optional<Sizes> whole = InUnits(sizes0, per_group);
  if (parts1 == 1 && whole.has_value()) {
    groups_ = *whole;
  } else if (parts0 % groups == 0) {
    groups_ = Sizes(groups, 1);
    within0 = WithinUnit(sizes0, groups, per_group).value_or(BalancedSizes(per_group, parts0 / groups));
    as = {{groups, ConvAxis::Kind::kGroup}, {parts0 / groups, kind0}, {parts1, kind1}};
  } else if (parts0 > groups) {
    groups_ = BalancedSizes(groups, parts0);
  } else {
    groups_ = BalancedSizes(groups, parts0 * parts1);
    within1 = {extents.weight[1]};
    as = {{parts0 * parts1, ConvAxis::Kind::kGroup}};
  }
  in_ = extents.transposed ? within0 : within1;
  out_ = extents.transposed ? within1 : within0;
  return Regroup(w.AxesOf(0), w.AxesOf(1), as);
}

absl::Status ConvGrid::Regroup(const std::vector<int>& first, const std::vector<int>& second,
                               const std::vector<std::pair<int64_t, ConvAxis::Kind>>& as) {
  std::vector<int> order, moved = first;
  moved.insert(moved.end(), second.begin(), second.end());
  Sizes shape;
  std::vector<ConvAxis> axes;
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (std::find(moved.begin(), moved.end(), axis) != moved.end()) continue;
    order.push_back(axis);
    shape.push_back(mesh_.shape()[axis]);
    axes.push_back(axes_[axis]);
  }
  order.insert(order.end(), moved.begin(), moved.end());
  for (const auto& [size, kind] : as) {
    shape.push_back(size);
    axes.push_back({kind});
  }
  std::vector<int> ranks;
  Sizes coords(mesh_.axes(), 0);
  for (int64_t i = 0; i < mesh_.size(); ++i) {
    ranks.push_back(mesh_.RankAt(coords));
    // The next position, the last axis of `order` running fastest.
    for (size_t at = order.size(); at-- > 0 && ++coords[order[at]] == mesh_.shape()[order[at]];) coords[order[at]] = 0;
  }
  ADJOIN_ASSIGN_OR_RETURN(const Mesh regrouped, Mesh::Create(std::move(shape), std::move(ranks)));
  mesh_ = regrouped.WithWeights(mesh_.weights());
  axes_ = std::move(axes);
  return absl::OkStatus();
}

int64_t ConvGrid::Parts(ConvAxis::Kind kind, int dim) const {
  int64_t parts = 1;
  for (int axis = 0; axis < mesh_.axes(); ++axis) {
    if (axes_[axis].kind == kind && axes_[axis].dim == dim) parts *= mesh_.shape()[axis];
  }
  return parts;
}

bool ConvGrid::HasWholeWeight() const {
  return Parts(ConvAxis::Kind::kGroup) * Parts(ConvAxis::Kind::kOut) * Parts(ConvAxis::Kind::kIn) == 1;
}

std::vector<int64_t> ConvGrid::InputParts() const { return Nested(groups_, in_); }

std::vector<int64_t> ConvGrid::OutputParts() const { return Nested(groups_, out_); }

}  // namespace adjoin
