#include "primitives/geometry/tiling.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/shape_text.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

// What the outputs [lo, hi) read of a dim with n cells: each once, beginning with x[lo mod n].
DimView Read(Interval outputs, int64_t n) {
  DimView view{std::min(outputs.size(), n), {}};
  if (view.extent == 0) return view;
  const int64_t first = outputs.lo % n;
  const int64_t head = std::min(view.extent, n - first);
  view.segments.push_back({{first, first + head}, 0});
  if (head < view.extent) view.segments.push_back({{0, view.extent - head}, head});
  return view;
}

absl::Status CheckShapes(absl::string_view what, const Layout& x, const std::vector<int64_t>& shape) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": from ", x.ToString(), " to shape ", ShapeText(shape), ": ", why));
  };
  const int new_dims = static_cast<int>(shape.size()) - x.dims();
  if (new_dims < 0) return refuse("the output needs at least the input's dims");
  for (int d = 0; d < x.dims(); ++d) {
    const int64_t n = x.shape()[d];
    const int64_t size = shape[new_dims + d];
    if (n == 0 ? size == 0 : size % n == 0) continue;
    return refuse(absl::StrCat("dim ", new_dims + d, " of size ", size, " is no multiple of the input's ", n));
  }
  for (const Placement& placement : x.placements()) {
    if (placement.kind != Kind::kPartial || placement.reduce == ReduceOp::kSum) continue;
    return refuse(absl::StrCat("the input has ", placement.ToString(),
                               ", which is not linear; legal are S, B and P(sum) (redistribute before)"));
  }
  return absl::OkStatus();
}

// Checks the placements and cuts of an output whose shape fits.
class LegalCheck {
 public:
  LegalCheck(absl::string_view what, const Layout& x, const Layout& y)
      : what_(what), x_(x), y_(y), new_dims_(y.dims() - x.dims()) {}

  absl::Status Run() const {
    if (x_.mesh() != y_.mesh() || x_.dtype() != y_.dtype()) {
      return Refuse("mesh and dtype must be the same (redistribute before or after)");
    }
    for (int axis = 0; axis < x_.mesh().axes(); ++axis) {
      const Placement from = x_.placements()[axis];
      const Placement to = y_.placements()[axis];
      if (IsLegal(from, to)) continue;
      return Refuse(absl::StrCat("axis ", axis, " goes from ", from.ToString(), " to ", to.ToString(), ", legal is ",
                                 LegalFor(from), " (redistribute before or after)"));
    }
    for (int d = 0; d < x_.dims(); ++d) {
      if (Changes(new_dims_ + d) || x_.Boundaries(d) == y_.Boundaries(new_dims_ + d)) continue;
      return Refuse(absl::StrCat("dim ", new_dims_ + d, " keeps its size and must keep its cuts ",
                                 absl::StrJoin(PartSizes(x_, d), ","), ", not ",
                                 absl::StrJoin(PartSizes(y_, new_dims_ + d), ",")));
    }
    return absl::OkStatus();
  }

 private:
  bool Changes(int y_dim) const { return y_dim < new_dims_ || x_.shape()[y_dim - new_dims_] != y_.shape()[y_dim]; }

  bool IsLegal(Placement from, Placement to) const {
    if (from.kind == Kind::kPartial) return to == from;
    const int dim = new_dims_ + from.dim;
    if (from.kind == Kind::kSplit && !Changes(dim)) return to == Placement::Split(dim);
    if (to.kind == Kind::kSplit) return Changes(to.dim);
    return to.kind == Kind::kBroadcast || (from.kind == Kind::kSplit && to == Placement::Partial());
  }

  std::string LegalFor(Placement from) const {
    if (from.kind == Kind::kPartial) return from.ToString();
    if (from.kind == Kind::kSplit && !Changes(new_dims_ + from.dim)) {
      return Placement::Split(new_dims_ + from.dim).ToString();
    }
    std::string legal = from.kind == Kind::kSplit ? "B, P(sum)" : "B";
    for (int d = 0; d < y_.dims(); ++d) {
      if (Changes(d)) absl::StrAppend(&legal, ", ", Placement::Split(d).ToString());
    }
    return legal;
  }

  absl::Status Refuse(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat(what_, ": from ", x_.ToString(), " to ", y_.ToString(), ": ", why));
  }

  absl::string_view what_;
  const Layout& x_;
  const Layout& y_;
  int new_dims_;
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> ExpandedShape(const std::vector<int64_t>& shape,
                                                   const std::vector<int64_t>& sizes) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("expand: ", ShapeText(shape), " to sizes [", absl::StrJoin(sizes, ", "), "]: ", why));
  };
  if (sizes.size() < shape.size()) {
    return refuse(
        absl::StrCat(sizes.size(), " sizes for ", shape.size(), " dims; one per dim is needed, new dims first"));
  }
  const size_t new_dims = sizes.size() - shape.size();
  std::vector<int64_t> expanded = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < -1) return refuse(absl::StrCat("dim ", d, " has the negative size ", sizes[d]));
    if (d < new_dims) {
      if (sizes[d] == -1) return refuse(absl::StrCat("-1 keeps an extent, but dim ", d, " is new and needs a size"));
      continue;
    }
    const int64_t extent = shape[d - new_dims];
    if (sizes[d] == -1) expanded[d] = extent;
    if (extent != 1 && expanded[d] != extent) {
      return refuse(absl::StrCat("dim ", d, " has extent ", extent, "; only dims of extent 1 are expanded, legal are ",
                                 extent, " and -1"));
    }
  }
  return expanded;
}

absl::StatusOr<std::vector<int64_t>> RepeatedShape(const std::vector<int64_t>& shape,
                                                   const std::vector<int64_t>& repeats) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("repeat: ", ShapeText(shape), " by [", absl::StrJoin(repeats, ", "), "]: ", why));
  };
  if (repeats.size() < shape.size()) {
    return refuse(
        absl::StrCat(repeats.size(), " numbers for ", shape.size(), " dims; one per dim is needed, new dims first"));
  }
  const size_t new_dims = repeats.size() - shape.size();
  std::vector<int64_t> repeated = repeats;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] < 0) return refuse(absl::StrCat("dim ", d, " has the negative number ", repeats[d]));
    const int64_t extent = d < new_dims ? 1 : shape[d - new_dims];
    if (extent > 0 && repeats[d] > std::numeric_limits<int64_t>::max() / extent) {
      return refuse(absl::StrCat("dim ", d, " would have more than 2^63 - 1 cells"));
    }
    repeated[d] = repeats[d] * extent;
  }
  return repeated;
}

absl::StatusOr<Layout> Tiling::OutputLayout(absl::string_view what, const Layout& x, std::vector<int64_t> shape) {
  ADJOIN_RETURN_IF_ERROR(CheckShapes(what, x, shape));
  const int new_dims = static_cast<int>(shape.size()) - x.dims();
  std::vector<Placement> placements = x.placements();
  for (Placement& placement : placements) {
    if (placement.kind == Kind::kSplit) placement.dim += new_dims;
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout even, Layout::Create(x.shape(), x.dtype(), x.mesh(), x.placements()));
  Layout::Cuts cuts;
  for (int d = 0; d < x.dims(); ++d) {
    // Even cuts are those that a layout has by itself.
    if (x.AxesOf(d).empty() || x.Boundaries(d) == even.Boundaries(d)) continue;
    std::vector<int64_t> sizes = PartSizes(x, d);
    for (int64_t& size : sizes) size *= shape[new_dims + d] / x.shape()[d];  // not 0: a dim of no cells is cut evenly
    cuts[new_dims + d] = std::move(sizes);
  }
  return Layout::Create(std::move(shape), x.dtype(), x.mesh(), std::move(placements), std::move(cuts));
}

absl::StatusOr<Tiling> Tiling::Create(absl::string_view what, const Layout& x, const Layout& y) {
  ADJOIN_RETURN_IF_ERROR(CheckShapes(what, x, y.shape()));
  ADJOIN_RETURN_IF_ERROR(LegalCheck(what, x, y).Run());
  Tiling tiling(x, y);
  const std::vector<int>& ranks = x.mesh().ranks();
  if (!std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return tiling.HoldsWhatItReads(rank); })) {
    ADJOIN_ASSIGN_OR_RETURN(tiling.needed_, tiling.BuildNeeded());
  }
  return tiling;
}

std::vector<DimView> Tiling::ReadBy(int rank) const {
  const Box made = y_.BoxOf(rank);
  std::vector<DimView> views;
  for (int d = 0; d < x_.dims(); ++d) views.push_back(Read(made[new_dims() + d], x_.shape()[d]));
  return views;
}

bool Tiling::HoldsWhatItReads(int rank) const {
  if (y_.BoxOf(rank).empty()) return true;
  const Box held = x_.BoxOf(rank);
  const std::vector<DimView> views = ReadBy(rank);
  for (int d = 0; d < x_.dims(); ++d) {
    for (const Segment& segment : views[d].segments) {
      if (segment.source.Intersect(held[d]) != segment.source) return false;
    }
  }
  return true;
}

// Seen from x, an axis along which ranks make different parts of y splits: they may read different cells. Which dim it
// names does not matter, since the views say what each rank reads.
absl::StatusOr<Distribution> Tiling::BuildNeeded() const {
  std::vector<Placement> placements = y_.placements();
  for (Placement& placement : placements) {
    if (placement.kind == Kind::kSplit) placement.dim = std::max(placement.dim - new_dims(), 0);
  }
  std::vector<LocalView> views;
  for (int rank : x_.mesh().ranks()) {
    views.push_back(ProductView(ReadBy(rank)));
    if (y_.BoxOf(rank).empty()) views.back().pieces.clear();
  }
  return Distribution::FromViews(x_.shape(), x_.dtype(), x_.mesh(), std::move(placements), std::move(views));
}

std::vector<DimTile> Tiling::TilesOf(int rank) const {
  const Box held = x_.BoxOf(rank);
  const Box made = y_.BoxOf(rank);
  const std::vector<DimView> views = ReadBy(rank);
  std::vector<DimTile> tiles;
  for (int d = 0; d < x_.dims(); ++d) {
    const int64_t length = made[new_dims() + d].size();
    if (moves()) {
      tiles.push_back({views[d].extent, 0, length});
    } else {
      // Two segments only where the rank has the whole dim: then the second begins where the first one's end wraps to.
      tiles.push_back({held[d].size(), views[d].segments[0].source.lo - held[d].lo, length});
    }
  }
  return tiles;
}

}  // namespace adjoin
