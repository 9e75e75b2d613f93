#include "layers/plan/layout_proto.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/mesh.h"

namespace adjoin {

LayoutPlan ToProto(const Layout& layout) {
  LayoutPlan message;
  for (int64_t extent : layout.shape()) message.add_shape(extent);
  message.set_dtype(ToString(layout.dtype()));
  for (int64_t size : layout.mesh().shape()) message.add_mesh(size);
  for (int rank : layout.mesh().ranks()) message.add_rank(rank);
  for (const Placement& placement : layout.placements()) message.add_placement(placement.ToString());
  // Cannot fail: the layout itself has passed the same checks.
  const Layout balanced = Layout::Create(layout.shape(), layout.dtype(), layout.mesh(), layout.placements()).value();
  for (int dim = 0; dim < layout.dims(); ++dim) {
    const std::vector<int64_t>& boundaries = layout.Boundaries(dim);
    if (boundaries == balanced.Boundaries(dim)) continue;
    Cut* cut = message.add_cut();
    cut->set_dim(dim);
    for (int64_t part = 0; part < layout.Parts(dim); ++part) cut->add_size(boundaries[part + 1] - boundaries[part]);
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
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({message.mesh().begin(), message.mesh().end()},
                                                  {message.rank().begin(), message.rank().end()}));
  Layout::Cuts cuts;
  for (const Cut& cut : message.cut()) cuts[static_cast<int>(cut.dim())] = {cut.size().begin(), cut.size().end()};
  return Layout::Create({message.shape().begin(), message.shape().end()}, dtype, std::move(mesh), std::move(placements),
                        std::move(cuts));
}

WindowPlan ToProto(int dim, const Window& window) {
  const Window::Options& options = window.options();
  WindowPlan message;
  message.set_dim(dim);
  message.set_kernel(options.kernel);
  message.set_stride(options.stride);
  message.set_dilation(options.dilation);
  message.set_pad_lo(options.pad_lo);
  message.set_pad_hi(options.pad_hi);
  message.set_boundary(ToString(options.boundary));
  message.set_ceil_mode(options.ceil_mode);
  return message;
}

absl::StatusOr<Window> WindowFromProto(const WindowPlan& message) {
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

InterpolationPlan ToProto(int dim, const Interpolation& interpolation) {
  const Interpolation::Options& options = interpolation.options();
  InterpolationPlan message;
  message.set_dim(dim);
  message.set_mode(ToString(options.mode));
  message.set_align_corners(options.align_corners);
  message.set_scale(options.scale);
  message.set_channels_last(options.channels_last);
  return message;
}

absl::StatusOr<Interpolation> InterpolationFromProto(const InterpolationPlan& message, const Layout& x,
                                                     const Layout& y) {
  if (message.dim() >= static_cast<uint32_t>(std::min(x.dims(), y.dims()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("an interpolation in dim ", message.dim(), " from ", x.ToString(), " to ", y.ToString()));
  }
  Interpolation::Options options;
  ADJOIN_ASSIGN_OR_RETURN(options.mode, ParseInterpolationMode(message.mode()));
  options.inputs = x.shape()[message.dim()];
  options.outputs = y.shape()[message.dim()];
  options.align_corners = message.align_corners();
  options.scale = message.scale();
  options.dtype = x.dtype();
  options.channels_last = message.channels_last();
  return Interpolation::Create(options);
}

absl::StatusOr<OperatorEnds> DistributionsOf(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(Layout from, LayoutFromProto(op.from()));
  ADJOIN_ASSIGN_OR_RETURN(Layout to, LayoutFromProto(op.to()));
  if (op.window().empty() && op.interpolation().empty()) {
    return OperatorEnds{Distribution::Of(from), Distribution::Of(to)};
  }
  if (!op.window().empty() && !op.interpolation().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("operator ", op.name(), " has windows and interpolations"));
  }
  const auto twice = [&op](const char* what, uint32_t dim) {
    return absl::InvalidArgumentError(absl::StrCat("operator ", op.name(), " has two ", what, " in dim ", dim));
  };
  std::map<int, Window> windows;
  for (const WindowPlan& message : op.window()) {
    ADJOIN_ASSIGN_OR_RETURN(Window window, WindowFromProto(message));
    if (!windows.emplace(static_cast<int>(message.dim()), window).second) return twice("windows", message.dim());
  }
  std::map<int, Interpolation> interpolations;
  for (const InterpolationPlan& message : op.interpolation()) {
    ADJOIN_ASSIGN_OR_RETURN(const Interpolation made, InterpolationFromProto(message, from, to));
    if (!interpolations.emplace(static_cast<int>(message.dim()), made).second) {
      return twice("interpolations", message.dim());
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(Distribution reads, windows.empty() ? InterpolatedReads(from, interpolations, to)
                                                              : Distribution::Windows(from, windows, to));
  return OperatorEnds{Distribution::Of(from), std::move(reads)};
}

}  // namespace adjoin
