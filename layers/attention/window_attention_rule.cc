// Attention within windows of [batch, spatial ..., channels], as torchvision's ShiftedWindowAttention, of 1 to 3
// spatial dims.
//
// A window is never cut: in each split dim the input is moved to whole windows of the padded tensor, rolled by the
// shift in the same movement, as an index selection modulo the padded extent ("x"). What the windows return is rolled
// back and cropped by another one (kRoleUnroll). A dim that is neither shifted nor padded and is cut at windows moves
// nothing. Where the features are cut, or the last dim of Layer.w, the heads are, and what they return is summed over
// them ("y"). In LayerOutcome::spec, window and shift have one value per spatial dim, 0 where nothing is shifted.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "layers/attention/attention_roles.h"
#include "layers/attention/head_cut.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/index_selection.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {
namespace {

constexpr double kTableStd = 0.02;

// Per spatial dim, checked.
struct Windows {
  std::vector<int64_t> window, shift, padded;
  int64_t cells = 1;      // in a window
  int64_t distances = 1;  // between two cells of a window: rows of the table
};

absl::StatusOr<std::vector<int64_t>> PerSpatialDim(const char* name,
                                                   const google::protobuf::RepeatedField<uint32_t>& list, int dims) {
  if (list.size() == 1) return std::vector<int64_t>(dims, list.Get(0));
  if (list.size() == dims) return std::vector<int64_t>(list.begin(), list.end());
  return AtField(name, InvalidSpec("window_attention.", name, " has ", list.size(),
                                   " values; write one, or one for each of the ", dims, " spatial dims"));
}

absl::StatusOr<Windows> WindowsOf(const WindowAttention& spec, const std::vector<int64_t>& shape) {
  const int dims = static_cast<int>(shape.size()) - 2;
  if (spec.window().empty()) {
    return AtField("window", InvalidSpec("window_attention.window is missing; write window: 7, say"));
  }
  Windows windows;
  ADJOIN_ASSIGN_OR_RETURN(windows.window, PerSpatialDim("window", spec.window(), dims));
  windows.shift.assign(dims, 0);
  if (!spec.shift().empty()) {
    ADJOIN_ASSIGN_OR_RETURN(windows.shift, PerSpatialDim("shift", spec.shift(), dims));
  }
  std::vector<int64_t> distances;
  for (int i = 0; i < dims; ++i) {
    const int64_t window = windows.window[i];
    if (window < 1) return AtField("window", InvalidSpec("window_attention.window is 0; it must be at least 1"));
    if (windows.shift[i] >= window) {
      return AtField("shift", InvalidSpec("window_attention.shift is ", windows.shift[i], " where the window is ",
                                          window, "; a shift is less than the window"));
    }
    windows.padded.push_back((shape[i + 1] + window - 1) / window * window);
    // There is nothing beyond a window that is the whole dim.
    if (window >= windows.padded[i]) windows.shift[i] = 0;
    distances.push_back(2 * window - 1);
  }
  auto cells = CheckedVolume(windows.window);
  if (!cells.ok()) return AtField("window", cells.status());
  auto rows = CheckedVolume(distances);
  if (!rows.ok()) return AtField("window", rows.status());
  windows.cells = *cells;
  windows.distances = *rows;
  return windows;
}

absl::Status CheckFields(const LayerRequest& request) {
  const Layout& x = request.input[0];
  if (x.dims() < 3 || x.dims() > 5) {
    return AtField("input",
                   InvalidSpec("it reads [batch, 1 to 3 spatial dims, channels]; its input is ", ShapeText(x.shape())));
  }
  const WindowAttention& spec = request.spec.window_attention();
  const int64_t channels = x.shape().back();
  if (spec.heads() < 1) {
    return AtField("window_attention.heads", InvalidSpec("window_attention.heads is missing; it must be at least 1"));
  }
  if (channels < 1 || channels % spec.heads() != 0) {
    return AtField(
        "window_attention.heads",
        InvalidSpec("the input's ", channels, " channels are not a multiple of the ", spec.heads(), " heads"));
  }
  if (!std::isfinite(spec.dropout()) || spec.dropout() < 0 || spec.dropout() >= 1) {
    return AtField("window_attention.dropout",
                   InvalidSpec("window_attention.dropout is ", spec.dropout(), "; it must be at least 0 and below 1"));
  }
  return absl::OkStatus();
}

// The layout in which the layer is cut, for a tensor of the input's shape: Layer.w or, without it, the input's.
absl::StatusOr<Layout> SourceOf(const LayerRequest& request) {
  const Layout& x = request.input[0];
  if (!request.spec.w().empty()) {
    auto w = request.layouts.Resolve(request.spec.w(), x.shape(), x.dtype());
    return w.ok() ? w : AtField("w", w.status());
  }
  const int features = x.dims() - 1;
  const int64_t width = x.shape()[features] / request.spec.window_attention().heads();
  bool at_heads = true;
  for (int64_t boundary : x.Boundaries(features)) at_heads = at_heads && boundary % width == 0;
  if (at_heads) return x;
  // Features may be cut anywhere; heads are then cut evenly.
  Layout::Cuts cuts;
  for (int dim = 0; dim < features; ++dim) {
    if (!x.AxesOf(dim).empty()) cuts[dim] = PartSizes(x, dim);
  }
  return Layout::Create(x.shape(), x.dtype(), x.mesh(), x.placements(), std::move(cuts));
}

// Sizes of the parts of a spatial dim in whole windows: even where the cells are cut evenly, else at the windows that
// are nearest to the cells' cuts.
absl::StatusOr<std::vector<int64_t>> WholeWindows(const Layout& source, int dim, int64_t window, int64_t padded) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout even,
                          Layout::Create(source.shape(), source.dtype(), source.mesh(), source.placements()));
  std::vector<int64_t> sizes;
  if (even.Boundaries(dim) == source.Boundaries(dim)) {
    std::vector<int64_t> counts = source.shape();
    counts[dim] = padded / window;
    ADJOIN_ASSIGN_OR_RETURN(const Layout of_windows, even.WithShape(std::move(counts)));
    for (int64_t size : PartSizes(of_windows, dim)) sizes.push_back(size * window);
    return sizes;
  }
  int64_t before = 0;
  const std::vector<int64_t>& boundaries = source.Boundaries(dim);
  for (size_t i = 1; i < boundaries.size(); ++i) {
    const bool last = i + 1 == boundaries.size();
    const int64_t at = last ? padded : (boundaries[i] + window / 2) / window * window;
    sizes.push_back(at - before);
    before = at;
  }
  return sizes;
}

absl::StatusOr<std::vector<ParameterNeed>> ParametersOf(const LayerRequest& request, const WindowAttention& spec,
                                                        const HeadCut& cut, const Windows& windows) {
  const DType dtype = request.parameter_dtype;
  const int64_t heads = spec.heads(), width = cut.width, channels = heads * width;
  std::vector<ParameterNeed> parameters;
  // The same elements in fewer dims in PyTorch's state_dict. Drawn as torch.nn.Linear's.
  const auto add = [&](const char* role, std::vector<int64_t> shape, int dim, std::vector<int64_t> stored) {
    auto need = HeadParameter(request.spec, cut, dtype, role, std::move(shape), dim);
    if (!need.ok()) return need.status();
    need->fan_in = channels;
    need->stored_shape = std::move(stored);
    parameters.push_back(*std::move(need));
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(add(kRoleQkvWeight, {3, heads, width, channels}, 1, {3 * channels, channels}));
  if (spec.bias()) ADJOIN_RETURN_IF_ERROR(add(kRoleQkvBias, {3, heads, width}, 1, {3 * channels}));
  ADJOIN_RETURN_IF_ERROR(add(kRoleProjWeight, {channels, heads, width}, 1, {channels, channels}));
  if (spec.bias()) {
    ADJOIN_ASSIGN_OR_RETURN(ParameterNeed bias, BiasOverHeads(request.spec, cut, dtype, kRoleProjBias, channels));
    bias.initial = std::nullopt;
    bias.fan_in = channels;
    parameters.push_back(std::move(bias));
  }
  ADJOIN_RETURN_IF_ERROR(add(kRolePositionBias, {windows.distances, heads}, 1, {}));
  Init init;
  init.set_kind("trunc_normal");
  init.set_gain(kTableStd);
  parameters.back().init = init;
  return parameters;
}

// `outputs` cells, the first of which is cell `start` of a cycle of `padded`.
absl::StatusOr<Reading> Roll(int64_t outputs, int64_t start, int64_t padded) {
  IndexSelection::Options options;
  options.outputs = outputs;
  options.start = start;
  options.modulus = padded;
  ADJOIN_ASSIGN_OR_RETURN(IndexSelection roll, IndexSelection::Cyclic(options));
  return Reading(std::move(roll));
}

double FlopsOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& padded, int64_t cells) {
  double tokens = 1, all = 1;
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim) {
    tokens *= static_cast<double>(shape[dim]);
    all *= static_cast<double>(padded[dim]);
  }
  const double channels = static_cast<double>(shape.back());
  // Queries, keys and values; scores, and what is weighted by them, of each pair in a window; the projection.
  return channels * (all * (6 * channels + 4 * static_cast<double>(cells)) + tokens * 2 * channels);
}

// The way of the input to windows, and of what the heads return back.
struct Ways {
  InputNeed need;
  Layout attended;  // [batch, padded ..., features]: each rank has those of its heads
  Layout cropped;   // [batch, spatial ..., features], likewise
  Layout compute;   // [batch, spatial ..., channels], a sum over heads
  std::map<int, Reading> unroll;
};

absl::StatusOr<Ways> WaysOf(const Layout& source, const HeadCut& cut, const Windows& windows,
                            const std::vector<int64_t>& padded, const Layout& output) {
  const int features = source.dims() - 1;
  const std::vector<int64_t>& shape = source.shape();
  Layout::Cuts in_windows, read, back;
  InputNeed need;
  std::map<int, Reading> unroll;
  for (int dim = 0; dim < features; ++dim) {
    const bool is_cut = !source.AxesOf(dim).empty();
    if (is_cut) read[dim] = back[dim] = in_windows[dim] = PartSizes(source, dim);
    if (dim == 0) continue;
    const int64_t shift = windows.shift[dim - 1], n = shape[dim];
    if (is_cut) {
      ADJOIN_ASSIGN_OR_RETURN(in_windows[dim], WholeWindows(source, dim, windows.window[dim - 1], padded[dim]));
    }
    if (shift == 0 && padded[dim] == n) {
      if (is_cut) read[dim] = back[dim] = in_windows[dim];
      continue;
    }
    ADJOIN_ASSIGN_OR_RETURN(Reading there, Roll(padded[dim], shift, padded[dim]));
    ADJOIN_ASSIGN_OR_RETURN(Reading again, Roll(n, -shift, padded[dim]));
    need.readings.emplace(dim, std::move(there));
    unroll.emplace(dim, std::move(again));
    if (is_cut && output.mesh() == source.mesh() && output.AxesOf(dim) == source.AxesOf(dim)) {
      back[dim] = PartSizes(output, dim);
    }
  }
  const auto with = [&](const std::vector<int64_t>& extents, Placement along, Layout::Cuts cuts) {
    std::vector<Placement> placements = source.placements();
    for (size_t axis = 0; axis < placements.size(); ++axis) {
      if (placements[axis] == Placement::Split(features)) placements[axis] = Placement::Broadcast();
      if (cut.axis[axis]) placements[axis] = along;
    }
    if (along == Placement::Split(features) && cut.cut()) {
      for (int64_t heads : cut.sizes) cuts[features].push_back(heads * cut.width);
    }
    return Layout::Create(extents, source.dtype(), source.mesh(), std::move(placements), std::move(cuts));
  };
  const Placement whole = Placement::Broadcast(), heads = Placement::Split(features);
  ADJOIN_ASSIGN_OR_RETURN(need.layout, with(shape, whole, read));
  ADJOIN_ASSIGN_OR_RETURN(need.reader, with(padded, whole, in_windows));
  ADJOIN_ASSIGN_OR_RETURN(Layout attended, with(padded, heads, in_windows));
  ADJOIN_ASSIGN_OR_RETURN(Layout cropped, with(shape, heads, back));
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, with(shape, Placement::Partial(), back));
  return Ways{std::move(need), std::move(attended), std::move(cropped), std::move(compute), std::move(unroll)};
}

}  // namespace

absl::StatusOr<LayerOutcome> WindowAttentionRule(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  ADJOIN_RETURN_IF_ERROR(CheckFields(request));
  const Layout& x = request.input[0];
  Layer filled = request.spec;
  WindowAttention& spec = *filled.mutable_window_attention();
  spec.set_bias(spec.has_bias() ? spec.bias() : true);
  auto windows = WindowsOf(spec, x.shape());
  if (!windows.ok()) return AtField("window_attention", windows.status());
  spec.mutable_window()->Assign(windows->window.begin(), windows->window.end());
  spec.mutable_shift()->Assign(windows->shift.begin(), windows->shift.end());
  std::vector<int64_t> padded = x.shape();
  std::copy(windows->padded.begin(), windows->padded.end(), padded.begin() + 1);
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(padded).status());
  std::vector<int64_t> scores(padded.begin(), padded.end() - 1);
  scores.insert(scores.end(), {spec.heads(), windows->cells});
  ADJOIN_RETURN_IF_ERROR(CheckedVolume(scores).status());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume({windows->distances, spec.heads()}).status());
  ADJOIN_RETURN_IF_ERROR(CheckedVolume({3, x.shape().back(), x.shape().back()}).status());

  ADJOIN_ASSIGN_OR_RETURN(const Layout source, SourceOf(request));
  ADJOIN_ASSIGN_OR_RETURN(const HeadCut cut, HeadCutOf(source, spec.heads()));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, x.shape(), x));
  ADJOIN_ASSIGN_OR_RETURN(Ways ways, WaysOf(source, cut, *windows, padded, output));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ParameterNeed> parameters, ParametersOf(request, spec, cut, *windows));
  MovementNeed unroll = {.role = kRoleUnroll,
                         .from = std::move(ways.attended),
                         .to = std::move(ways.cropped),
                         .readings = std::move(ways.unroll),
                         .of_parameters = true};
  return LayerOutcome{.spec = std::move(filled),
                      .input = {std::move(ways.need)},
                      .parameter = std::move(parameters),
                      .compute = std::move(ways.compute),
                      .output = std::move(output),
                      .flops = FlopsOf(x.shape(), padded, windows->cells),
                      .movement = {std::move(unroll)}};
}

}  // namespace adjoin
