#include "primitives/geometry/distribution.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

DimView WholeDim(Interval held) {
  DimView view{held.size(), {}};
  if (!held.empty()) view.segments.push_back({held, 0});
  return view;
}

// True where two pieces share a cell of the local tensor.
bool Meet(const Piece& a, const Piece& b) {
  for (int d = 0; d < a.box.dims(); ++d) {
    if (a.at[d] >= b.at[d] + b.box[d].size() || b.at[d] >= a.at[d] + a.box[d].size()) return false;
  }
  return true;
}

absl::Status CheckView(const LocalView& view, const std::vector<int64_t>& shape, int rank) {
  const auto refuse = [rank](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("the view of rank ", rank, " ", why));
  };
  if (view.shape.size() != shape.size()) {
    return refuse(absl::StrCat("has ", view.shape.size(), " dims, the tensor ", shape.size()));
  }
  const Box whole = Box::Whole(shape);
  const Box local = Box::Whole(view.shape);
  for (size_t i = 0; i < view.pieces.size(); ++i) {
    const Piece& piece = view.pieces[i];
    if (piece.box.dims() != whole.dims() || piece.at.size() != shape.size()) {
      return refuse(absl::StrCat("has a piece with another number of dims than ", shape.size()));
    }
    std::vector<Interval> cells;
    for (int d = 0; d < piece.box.dims(); ++d) cells.push_back({piece.at[d], piece.at[d] + piece.box[d].size()});
    const Box stored(std::move(cells));
    if (piece.box.empty()) return refuse(absl::StrCat("has the empty piece ", piece.box.ToString()));
    if (!whole.Contains(piece.box) || !local.Contains(stored)) {
      return refuse(absl::StrCat("has piece ", piece.box.ToString(), " at ", stored.ToString(), ", outside the tensor ",
                                 whole.ToString(), " or the local one ", local.ToString()));
    }
    for (size_t j = 0; j < i; ++j) {
      if (!Meet(piece, view.pieces[j])) continue;
      return refuse(absl::StrCat("has pieces ", view.pieces[j].box.ToString(), " and ", piece.box.ToString(),
                                 " on the same local cells"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReadings(const Layout& x, const std::map<int, Reading>& readings, const Layout& y) {
  if (x.mesh() != y.mesh() || x.placements() != y.placements() || x.dims() != y.dims()) {
    return absl::InvalidArgumentError(
        absl::StrCat("halo exchanges need an input and an output with one mesh, one number of "
                     "dims and the same placements; got ",
                     x.ToString(), " and ", y.ToString()));
  }
  for (const auto& entry : readings) {
    const int dim = entry.first;
    if (dim < 0 || dim >= x.dims()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a halo exchange in dim ", dim, " of a tensor of ", x.dims(), " dims"));
    }
    ADJOIN_ASSIGN_OR_RETURN(const int64_t outputs, entry.second.OutputSize(x.shape()[dim]));
    if (outputs != y.shape()[dim]) {
      return absl::InvalidArgumentError(absl::StrCat("reading with ", entry.second.ToString(), " makes ", outputs,
                                                     " outputs of dim ", dim, " with extent ", x.shape()[dim],
                                                     ", but the output layout has ", y.shape()[dim]));
    }
  }
  return absl::OkStatus();
}

LocalView ProductView(const std::vector<DimView>& dims) {
  LocalView view;
  view.pieces.emplace_back();
  for (const DimView& dim : dims) {
    view.shape.push_back(dim.extent);
    std::vector<Piece> pieces;
    for (const Piece& piece : view.pieces) {
      for (const Segment& segment : dim.segments) {
        std::vector<Interval> intervals;
        for (int d = 0; d < piece.box.dims(); ++d) intervals.push_back(piece.box[d]);
        intervals.push_back(segment.source);
        pieces.push_back({Box(std::move(intervals)), piece.at});
        pieces.back().at.push_back(segment.at);
      }
    }
    view.pieces = std::move(pieces);
  }
  return view;
}

Distribution::Distribution(const Layout& layout)
    : mesh_(layout.mesh()), placements_(layout.placements()), shape_(layout.shape()), dtype_(layout.dtype()) {
  outside_.shape.assign(shape_.size(), 0);
  views_.reserve(mesh_.size());
}

Distribution Distribution::Of(const Layout& layout) {
  Distribution distribution(layout);
  for (int rank : layout.mesh().ranks()) {
    const Box box = layout.BoxOf(rank);
    std::vector<DimView> dims;
    for (int d = 0; d < box.dims(); ++d) dims.push_back(WholeDim(box[d]));
    distribution.views_.push_back(ProductView(dims));
  }
  return distribution;
}

absl::StatusOr<Distribution> Distribution::Reads(const Layout& x, const std::map<int, Reading>& readings,
                                                 const Layout& y) {
  ADJOIN_RETURN_IF_ERROR(CheckReadings(x, readings, y));
  Distribution distribution(x);
  // By dim, first and last output: ranks that share them read the same.
  std::map<std::tuple<int, int64_t, int64_t>, DimView> read;
  for (int rank : x.mesh().ranks()) {
    const Box held = x.BoxOf(rank);
    const Box outputs = y.BoxOf(rank);
    std::vector<DimView> dims;
    for (int d = 0; d < x.dims(); ++d) {
      auto it = readings.find(d);
      if (it == readings.end()) {
        dims.push_back(WholeDim(held[d]));
      } else {
        const auto [view, fresh] = read.try_emplace({d, outputs[d].lo, outputs[d].hi});
        if (fresh) {
          Need need = it->second.Needed(outputs[d], x.shape()[d]);
          view->second = {need.fetched, std::move(need.segments)};
        }
        dims.push_back(view->second);
      }
    }
    distribution.views_.push_back(ProductView(dims));
  }
  return distribution;
}

absl::StatusOr<Distribution> Distribution::FromViews(std::vector<int64_t> shape, DType dtype, Mesh mesh,
                                                     std::vector<Placement> placements, std::vector<LocalView> views) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout,
                          Layout::Create(std::move(shape), dtype, std::move(mesh), std::move(placements)));
  const Mesh& on = layout.mesh();
  if (static_cast<int64_t>(views.size()) != on.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(views.size(), " views are given for the ", on.size(), " ranks of mesh ", on.ToString()));
  }
  for (int64_t position = 0; position < on.size(); ++position) {
    const int rank = on.ranks()[position];
    ADJOIN_RETURN_IF_ERROR(CheckView(views[position], layout.shape(), rank));
    std::vector<int64_t> coords = *on.CoordsOf(rank);
    for (int axis = 0; axis < on.axes(); ++axis) {
      if (layout.placements()[axis].kind != Placement::Kind::kSplit) coords[axis] = 0;
    }
    const int copy_of = on.RankAt(coords);
    if (views[position] == views[*on.IndexOf(copy_of)]) continue;
    return absl::InvalidArgumentError(absl::StrCat("the views of ranks ", copy_of, " and ", rank,
                                                   " differ along an axis of mesh ", on.ToString(),
                                                   " that does not split; they must be the same, or the axis S"));
  }
  Distribution distribution(layout);
  distribution.views_ = std::move(views);
  return distribution;
}

const LocalView& Distribution::View(int rank) const {
  const std::optional<int64_t> index = mesh_.IndexOf(rank);
  return index.has_value() ? views_[*index] : outside_;
}

absl::StatusOr<Distribution> Distribution::Dual() const {
  Distribution dual = *this;
  for (Placement& placement : dual.placements_) {
    if (placement.kind == Placement::Kind::kBroadcast) {
      placement = Placement::Partial();
    } else if (placement.kind == Placement::Kind::kPartial) {
      if (placement.reduce != ReduceOp::kSum) {
        return absl::InvalidArgumentError(
            absl::StrCat("a distribution with ", placement.ToString(), " has no dual: it is not linear"));
      }
      placement = Placement::Broadcast();
    }
  }
  return dual;
}

bool operator==(const Distribution& a, const Distribution& b) {
  return a.mesh_ == b.mesh_ && a.placements_ == b.placements_ && a.shape_ == b.shape_ && a.dtype_ == b.dtype_ &&
         a.views_ == b.views_;
}

}  // namespace adjoin
