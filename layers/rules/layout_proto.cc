#include "layers/rules/layout_proto.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

namespace {

WindowPlan WindowToProto(const Window::Options& options) {
  WindowPlan message;
  message.set_kernel(options.kernel);
  message.set_stride(options.stride);
  message.set_dilation(options.dilation);
  message.set_pad_lo(options.pad_lo);
  message.set_pad_hi(options.pad_hi);
  message.set_boundary(ToString(options.boundary));
  message.set_ceil_mode(options.ceil_mode);
  return message;
}

absl::StatusOr<Reading> WindowFromProto(const WindowPlan& message) {
  Window::Options options;
  options.kernel = message.kernel();
  options.stride = message.stride();
  options.dilation = message.dilation();
  options.pad_lo = message.pad_lo();
  options.pad_hi = message.pad_hi();
  ADJOIN_ASSIGN_OR_RETURN(options.boundary, ParseBoundary(message.boundary()));
  options.ceil_mode = message.ceil_mode();
  return Window::Create(options);
}

TransposedWindowPlan TransposedToProto(const TransposedWindow::Options& options) {
  TransposedWindowPlan message;
  message.set_kernel(options.kernel);
  message.set_stride(options.stride);
  message.set_dilation(options.dilation);
  message.set_pad_lo(options.pad_lo);
  message.set_pad_hi(options.pad_hi);
  message.set_output_padding(options.output_padding);
  return message;
}

absl::StatusOr<Reading> TransposedFromProto(const TransposedWindowPlan& message) {
  return TransposedWindow::Create({message.kernel(), message.stride(), message.dilation(), message.pad_lo(),
                                   message.pad_hi(), message.output_padding()});
}

InterpolationPlan InterpolationToProto(const Interpolation::Options& options) {
  InterpolationPlan message;
  message.set_mode(ToString(options.mode));
  message.set_align_corners(options.align_corners);
  message.set_scale(options.scale);
  return message;
}

SelectionPlan SelectionToProto(const IndexSelection& selection) {
  SelectionPlan message;
  message.set_outputs(selection.options().outputs);
  if (selection.is_list()) {
    message.mutable_index()->Add(selection.indices().begin(), selection.indices().end());
    return message;
  }
  message.set_start(selection.options().start);
  message.set_step(selection.options().step);
  message.set_modulus(selection.options().modulus);
  return message;
}

absl::StatusOr<IndexSelection> SelectionFromProto(const SelectionPlan& message) {
  if (message.step() == 0) return IndexSelection::Of({message.index().begin(), message.index().end()});
  return IndexSelection::Cyclic({message.outputs(), message.start(), message.step(), message.modulus()});
}

// `options` has the extents and the type.
absl::StatusOr<Reading> InterpolationFromProto(const InterpolationPlan& message, Interpolation::Options options) {
  ADJOIN_ASSIGN_OR_RETURN(options.mode, ParseInterpolationMode(message.mode()));
  options.align_corners = message.align_corners();
  options.scale = message.scale();
  return Interpolation::Create(options);
}

}  // namespace

namespace {

// Lists from this length on are written as runs, where that is shorter.
constexpr size_t kLongList = 64;
// More ranks than a mesh can have.
constexpr int64_t kTooManyRanks = int64_t{1} << 24;

void AddRanks(const std::vector<int>& ranks, LayoutPlan& message) {
  if (ranks.size() >= kLongList) {
    size_t runs = 1;
    for (size_t i = 1; i < ranks.size(); ++i) runs += ranks[i] == ranks[i - 1] + 1 ? 0 : 1;
    if (runs <= ranks.size() / 8) {
      for (const int rank : ranks) {
        RankRun* last = message.ranks().empty() ? nullptr : message.mutable_ranks(message.ranks_size() - 1);
        if (last == nullptr || static_cast<uint32_t>(rank) != last->first() + last->count()) {
          last = message.add_ranks();
          last->set_first(rank);
        }
        last->set_count(last->count() + 1);
      }
      return;
    }
  }
  message.mutable_rank()->Add(ranks.begin(), ranks.end());
}

absl::StatusOr<std::vector<int>> RanksOf(const LayoutPlan& message) {
  std::vector<int> ranks(message.rank().begin(), message.rank().end());
  int64_t size = 1;  // of the mesh
  for (const int64_t extent : message.mesh()) {
    if (extent < 0 || extent > kTooManyRanks || (size *= std::max<int64_t>(extent, 1)) > kTooManyRanks) {
      return absl::InvalidArgumentError(absl::StrCat("a mesh of more than ", kTooManyRanks, " ranks"));
    }
  }
  int64_t in_runs = message.rank_size();
  for (const RankRun& run : message.ranks()) in_runs += run.count();
  if (!message.ranks().empty() && in_runs > size) {
    return absl::InvalidArgumentError(absl::StrCat("a layout with ", in_runs, " ranks on a mesh of ", size));
  }
  for (const RankRun& run : message.ranks()) {
    if (static_cast<int64_t>(ranks.size()) + run.count() > kTooManyRanks || run.first() > kTooManyRanks) {
      return absl::InvalidArgumentError(absl::StrCat("a layout with ", run.count(), " ranks from ", run.first(),
                                                     " on; at most ", kTooManyRanks, " are possible"));
    }
    for (uint32_t i = 0; i < run.count(); ++i) ranks.push_back(static_cast<int>(run.first() + i));
  }
  return ranks;
}

}  // namespace

LayoutPlan ToProto(const Layout& layout) {
  LayoutPlan message;
  for (int64_t extent : layout.shape()) message.add_shape(extent);
  message.set_dtype(ToString(layout.dtype()));
  for (int64_t size : layout.mesh().shape()) message.add_mesh(size);
  AddRanks(layout.mesh().ranks(), message);
  for (const Placement& placement : layout.placements()) message.add_placement(placement.ToString());
  // Cannot fail: the layout itself has passed the same checks. Without weights: a message does not have them.
  const Layout balanced =
      Layout::Create(layout.shape(), layout.dtype(), layout.mesh().WithWeights(nullptr), layout.placements()).value();
  for (int dim = 0; dim < layout.dims(); ++dim) {
    if (layout.Boundaries(dim) == balanced.Boundaries(dim)) continue;
    Cut* cut = message.add_cut();
    cut->set_dim(dim);
    for (int64_t size : PartSizes(layout, dim)) cut->add_size(size);
  }
  return message;
}

absl::StatusOr<Layout> LayoutFromProto(const LayoutPlan& message) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, ParseDType(message.dtype()));
  std::vector<Placement> placements;
  for (const std::string& text : message.placement()) {
    ADJOIN_ASSIGN_OR_RETURN(Placement placement, Placement::Parse(text));
    placements.push_back(placement);
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<int> ranks, RanksOf(message));
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({message.mesh().begin(), message.mesh().end()}, std::move(ranks)));
  Layout::Cuts cuts;
  for (const Cut& cut : message.cut()) cuts[static_cast<int>(cut.dim())] = {cut.size().begin(), cut.size().end()};
  return Layout::Create({message.shape().begin(), message.shape().end()}, dtype, std::move(mesh), std::move(placements),
                        std::move(cuts));
}

ReadingPlan ToProto(int dim, const Reading& reading) {
  ReadingPlan message;
  message.set_dim(dim);
  if (const auto* window = reading.As<Window>()) {
    *message.mutable_window() = WindowToProto(window->options());
  } else if (const auto* transposed = reading.As<TransposedWindow>()) {
    *message.mutable_transposed() = TransposedToProto(transposed->options());
  } else if (const auto* adaptive = reading.As<AdaptiveWindow>()) {
    message.mutable_adaptive()->set_outputs(adaptive->outputs());
  } else if (const auto* edge = reading.As<EdgeWindow>()) {
    const EdgeWindow::Options& options = edge->options();
    message.mutable_edge()->set_reach(options.before);
    if (options.after != options.before) message.mutable_edge()->set_after(options.after);
    message.mutable_edge()->set_inner(options.inner);
  } else if (const auto* selection = reading.As<IndexSelection>()) {
    *message.mutable_selection() = SelectionToProto(*selection);
  } else if (const auto* interpolation = reading.As<Interpolation>()) {
    *message.mutable_interpolation() = InterpolationToProto(interpolation->options());
  }
  return message;
}

absl::StatusOr<Reading> ReadingFromProto(const ReadingPlan& message, const Layout& x, const Layout& y) {
  if (message.dim() >= static_cast<uint32_t>(std::min(x.dims(), y.dims()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a reading in dim ", message.dim(), " of ", x.ToString(), " by ", y.ToString()));
  }
  switch (message.kind_case()) {
    case ReadingPlan::kWindow: return WindowFromProto(message.window());
    case ReadingPlan::kTransposed: return TransposedFromProto(message.transposed());
    case ReadingPlan::kAdaptive: return AdaptiveWindow::Create(message.adaptive().outputs());
    case ReadingPlan::kEdge: {
      const EdgeWindowPlan& edge = message.edge();
      return EdgeWindow::Create({edge.reach(), edge.has_after() ? edge.after() : edge.reach(), edge.inner()});
    }
    case ReadingPlan::kSelection: return SelectionFromProto(message.selection());
    case ReadingPlan::kInterpolation: {
      Interpolation::Options options;
      options.inputs = x.shape()[message.dim()];
      options.outputs = y.shape()[message.dim()];
      options.dtype = x.dtype();
      return InterpolationFromProto(message.interpolation(), options);
    }
    case ReadingPlan::KIND_NOT_SET: break;
  }
  return absl::InvalidArgumentError(absl::StrCat("a reading in dim ", message.dim(), " of no known kind"));
}

absl::StatusOr<MovementEnds> MovementEndsOf(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout from, LayoutFromProto(op.from()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout to, LayoutFromProto(op.to()));
  MovementEnds ends{.from = from, .to = to};
  if (op.has_read()) {
    ADJOIN_ASSIGN_OR_RETURN(ends.read, LayoutFromProto(op.read()));
  }
  const auto two_readings = [&op](const ReadingPlan& reading) {
    return absl::InvalidArgumentError(absl::StrCat("operator ", op.name(), " has two readings in dim ", reading.dim()));
  };
  for (const ReadingPlan& message : op.reading()) {
    ADJOIN_ASSIGN_OR_RETURN(Reading reading, ReadingFromProto(message, ends.read.value_or(from), to));
    if (!ends.readings.emplace(static_cast<int>(message.dim()), std::move(reading)).second)
      return two_readings(message);
  }
  for (const ReadingPlan& message : op.source()) {
    ADJOIN_ASSIGN_OR_RETURN(Reading reading, ReadingFromProto(message, from, from));
    if (!ends.source.emplace(static_cast<int>(message.dim()), std::move(reading)).second) return two_readings(message);
  }
  return ends;
}

absl::StatusOr<OperatorEnds> DistributionsOf(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds ends, MovementEndsOf(op));
  ADJOIN_ASSIGN_OR_RETURN(Distribution from, ends.Source());
  ADJOIN_ASSIGN_OR_RETURN(Distribution to, ends.Destination());
  return OperatorEnds{std::move(from), std::move(to)};
}

}  // namespace adjoin
