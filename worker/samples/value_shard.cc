#include "worker/samples/value_shard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ops/empty.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "planner/spec/augment.h"
#include "planner/spec/grid_strides.h"
#include "planner/spec/sample_shape.h"
#include "primitives/geometry/layout.h"
#include "primitives/torch_dtype.h"
#include "worker/samples/copy_cells.h"
#include "worker/samples/sample_pieces.h"

namespace adjoin {
namespace {

Box WithoutBatch(const Box& box) {
  std::vector<Interval> dims;
  for (int dim = 1; dim < box.dims(); ++dim) dims.push_back(box[dim]);
  return Box(std::move(dims));
}

// True where no rank before this one holds the same cells.
bool IsFirstCopy(const Layout& layout, int rank) {
  const std::optional<std::vector<int64_t>> coords = layout.mesh().CoordsOf(rank);
  if (!coords.has_value()) return false;
  for (size_t axis = 0; axis < coords->size(); ++axis) {
    if (layout.placements()[axis].kind != Placement::Kind::kSplit && (*coords)[axis] != 0) return false;
  }
  return true;
}

template <typename Function>
void WithCells(at::Tensor& tensor, Function function) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return function(tensor.data_ptr<float>());
    case at::kDouble: return function(tensor.data_ptr<double>());
    case at::kBFloat16: return function(tensor.data_ptr<c10::BFloat16>());
    default:  // CellRules::Create knows no other
      return function(tensor.data_ptr<int64_t>());
  }
}

}  // namespace

absl::StatusOr<ValueShard> ValueShard::Create(const Dataset& dataset, const Field& field, const ValuePlan& value,
                                              int rank) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
  std::vector<int64_t> whole(field.shape().begin(), field.shape().end());
  if (whole.empty()) whole.assign(layout.shape().begin() + 1, layout.shape().end());
  ADJOIN_ASSIGN_OR_RETURN(CellRules rules, CellRules::Create(field, whole, layout.dtype()));
  ValueShard shard(std::move(rules));
  shard.spatial_ = HasSpatialDims(dataset, field.shape_size()) ? SpatialDims(dataset) : 0;
  std::vector<int64_t> sample = field.shape().empty() ? whole : SampleShape(dataset, field);
  shard.strides_.assign(shard.spatial_, 1);
  if (dataset.has_blocks() && shard.spatial_ > 0) shard.strides_ = GridStrides(dataset, field);
  if (std::count(shard.strides_.begin(), shard.strides_.end(), 0) > 0) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(),
                                                   "\": its extents are those of no coarser"
                                                   " grid"));
  }
  if (!std::equal(sample.begin(), sample.end(), layout.shape().begin() + 1, layout.shape().end())) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(), "\": a sample is ",
                                                   absl::StrJoin(sample, "x"), "; the plan's batch is ",
                                                   absl::StrJoin(layout.shape(), "x")));
  }
  shard.varies_ = HasVaryingExtents(field);
  shard.whole_ = std::move(whole);
  shard.sample_ = std::move(sample);
  shard.dtype_ = layout.dtype();
  Layout holder = layout;
  if (value.read().has_read()) {  // other ranks than the layout's read it
    ADJOIN_ASSIGN_OR_RETURN(holder, LayoutFromProto(value.read().read()));
  }
  shard.own_ = IsFirstCopy(holder, rank) ? holder.BoxOf(rank) : Box::Nothing(layout.dims());
  if (value.has_read()) {
    ADJOIN_ASSIGN_OR_RETURN(const OperatorEnds ends, DistributionsOf(value.read()));
    if (ends.to.global_shape() != layout.shape()) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(), "\" is read from ",
                                                     absl::StrJoin(ends.to.global_shape(), "x"), " as part of ",
                                                     absl::StrJoin(layout.shape(), "x")));
    }
    shard.view_ = ends.to.View(rank);
    shard.fill_ = value.read().fill();
  } else {
    shard.view_ = Distribution::Of(layout).View(rank);
  }
  return shard;
}

bool ValueShard::reads() const { return !view_.pieces.empty(); }

DimPosition ValueShard::PositionOf(const SamplePosition& position, int dim) const {
  const int spatial = dim - (static_cast<int>(whole_.size()) - spatial_);
  if (spatial < 0 || position.dims.empty()) return DimPosition();
  return position.dims[spatial].OnGrid(strides_[spatial]);
}

absl::StatusOr<at::Tensor> ValueShard::Read(const std::vector<SamplePosition>& positions, const std::atomic<bool>& stop,
                                            std::optional<std::string>* not_finite) {
  at::Tensor tensor = at::empty(view_.shape, ScalarTypeOf(dtype_));
  int64_t covered = 0;
  for (const Piece& piece : view_.pieces) covered += piece.box.Volume();
  if (covered < tensor.numel()) {
    WithCells(tensor, [&](auto* cells) {
      std::fill_n(cells, tensor.numel(), static_cast<std::decay_t<decltype(*cells)>>(fill_));
    });
  }
  for (const Piece& piece : view_.pieces) {
    ADJOIN_RETURN_IF_ERROR(ReadPiece(piece, positions, stop, tensor, not_finite));
  }
  // A chunk is read as one, however large: what it took is not kept.
  if (cells_.size() > static_cast<size_t>(kMostCellsAtOnce)) {
    std::vector<double>().swap(cells_);
    std::vector<double>().swap(fetched_);
  }
  return tensor;
}

absl::Status ValueShard::ReadPiece(const Piece& piece, const std::vector<SamplePosition>& positions,
                                   const std::atomic<bool>& stop, at::Tensor& tensor,
                                   std::optional<std::string>* not_finite) {
  const Box box = WithoutBatch(piece.box);
  const int64_t each = box.Volume();
  for (int64_t position = piece.box[0].lo; position < piece.box[0].hi;) {
    // Samples that follow each other in the file are read at once.
    const SamplePosition& from = positions[position];
    int64_t count = 1;
    const auto follows = [&](int64_t next) {
      return next < piece.box[0].hi && positions[next].sample == from.sample + count &&
             positions[next].dims == from.dims && !varies_;
    };
    while ((count + 1) * each <= kMostCellsAtOnce && follows(position + count)) ++count;
    ADJOIN_RETURN_IF_ERROR(
        ReadRun({.position = position, .from = &from, .count = count, .box = box}, piece, stop, tensor, not_finite));
    position += count;
  }
  return absl::OkStatus();
}

absl::Status ValueShard::ReadRun(const Run& run, const Piece& piece, const std::atomic<bool>& stop, at::Tensor& tensor,
                                 std::optional<std::string>* not_finite) {
  if (const std::optional<BoxCut> cut = CutOf(run)) {
    Run half = run;
    half.box[cut->dim].hi = cut->at;
    ADJOIN_RETURN_IF_ERROR(ReadRun(half, piece, stop, tensor, not_finite));
    half.box[cut->dim] = {cut->at, run.box[cut->dim].hi};
    return ReadRun(half, piece, stop, tensor, not_finite);
  }
  if (stop.load()) return absl::CancelledError("reading was stopped");
  ADJOIN_RETURN_IF_ERROR(FetchRun(run));
  ADJOIN_RETURN_IF_ERROR(scaling_->Apply(run.from->sample, run.count, run.box, stop, cells_.data()));
  if (const std::optional<CellRules::Wrong> wrong = rules_.Apply(cells_.data(), run.count, run.box)) {
    return absl::InvalidArgumentError(absl::StrCat(WhereIs(run, wrong->cell), ": ", wrong->what));
  }
  if (not_finite != nullptr && !not_finite->has_value()) LookForNotFinite(run, not_finite);
  std::vector<int64_t> extents = {run.count};
  const std::vector<int64_t> strides = RowMajorStrides(view_.shape);
  int64_t at = (piece.at[0] + run.position - piece.box[0].lo) * strides[0];
  for (int dim = 0; dim < run.box.dims(); ++dim) {
    extents.push_back(run.box[dim].size());
    at += (piece.at[dim + 1] + run.box[dim].lo - piece.box[dim + 1].lo) * strides[dim + 1];
  }
  WithCells(tensor, [&](auto* cells) { CopyCells(cells_.data(), extents, strides, cells + at); });
  return absl::OkStatus();
}

// Returns where to cut a run that is too large to be read at once, in the cells of the sample.
std::optional<BoxCut> ValueShard::CutOf(const Run& run) const {
  if (run.box.Volume() <= kMostCellsAtOnce) return std::nullopt;
  const std::vector<int64_t>& whole = source_->ShapeOf(run.from->sample);
  std::vector<Interval> inside;
  for (int dim = 0; dim < run.box.dims(); ++dim) {
    inside.push_back(PositionOf(*run.from, dim).In(run.box[dim], sample_[dim]).Intersect({0, whole[dim]}));
  }
  const Box box(std::move(inside));
  if (box.Volume() <= kMostCellsAtOnce) return BoxCut::FirstDim(run.box);  // most of it is outside of the file's sample
  std::optional<BoxCut> cut = source_->CutOf(run.from->sample, box);
  if (!cut.has_value()) return cut;
  const DimPosition position = PositionOf(*run.from, cut->dim);
  cut->at = position.mirrored ? position.first + sample_[cut->dim] - cut->at : cut->at - position.first;
  return cut;
}

// Reads the run into cells_. Cells outside of the file's sample are 0, as if the file held them.
absl::Status ValueShard::FetchRun(const Run& run) {
  cells_.resize(run.count * run.box.Volume());
  const std::vector<int64_t>& whole = source_->ShapeOf(run.from->sample);
  std::vector<Interval> inside;
  std::vector<int64_t> extents = {run.count};
  std::vector<int64_t> strides = RowMajorStrides([&] {
    std::vector<int64_t> shape = {run.count};
    for (int dim = 0; dim < run.box.dims(); ++dim) shape.push_back(run.box[dim].size());
    return shape;
  }());
  int64_t at = 0;
  bool as_it_is = true;
  for (int dim = 0; dim < run.box.dims(); ++dim) {
    const DimPosition position = PositionOf(*run.from, dim);
    const Interval wanted = position.In(run.box[dim], sample_[dim]);
    inside.push_back(wanted.Intersect({0, whole[dim]}));
    extents.push_back(inside.back().size());
    as_it_is = as_it_is && !position.mirrored && inside.back() == wanted;
    at += (position.mirrored ? wanted.hi - 1 - inside.back().lo : inside.back().lo - wanted.lo) * strides[dim + 1];
    if (position.mirrored) strides[dim + 1] = -strides[dim + 1];
  }
  const Box box(std::move(inside));
  if (as_it_is) return source_->Read(run.from->sample, run.count, box, cells_.data());
  std::fill(cells_.begin(), cells_.end(), 0.0);
  if (box.empty()) return absl::OkStatus();
  fetched_.resize(run.count * box.Volume());
  ADJOIN_RETURN_IF_ERROR(source_->Read(run.from->sample, run.count, box, fetched_.data()));
  CopyCells(fetched_.data(), extents, strides, cells_.data() + at);
  return absl::OkStatus();
}

std::string ValueShard::WhereIs(const Run& run, int64_t cell) const {
  std::vector<int64_t> position(run.box.dims());
  for (int dim = run.box.dims(); dim-- > 0; cell /= run.box[dim].size()) {
    position[dim] = PositionOf(*run.from, dim).CellOf(run.box[dim].lo + cell % run.box[dim].size(), sample_[dim]);
  }
  return absl::StrCat("sample ", run.from->sample + cell,
                      position.empty() ? "" : absl::StrCat(", position [", absl::StrJoin(position, ", "), "]"));
}

void ValueShard::LookForNotFinite(const Run& run, std::optional<std::string>* not_finite) const {
  bool all_finite = true;
  for (double value : cells_) all_finite = all_finite & (std::fabs(value) <= std::numeric_limits<double>::max());
  if (all_finite) return;
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (std::isfinite(cells_[i])) continue;
    int64_t cell = static_cast<int64_t>(i);
    bool own = true;
    for (int dim = run.box.dims(); dim-- > 0; cell /= run.box[dim].size()) {
      own = own && own_[dim + 1].Contains(run.box[dim].lo + cell % run.box[dim].size());
    }
    if (!own || !own_[0].Contains(run.position + cell)) continue;
    *not_finite = absl::StrCat(WhereIs(run, static_cast<int64_t>(i)), ": ", cells_[i]);
    return;
  }
}

}  // namespace adjoin
