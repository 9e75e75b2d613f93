#include "layers/plan/windowed.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/plan/rule_checks.h"
#include "layers/plan/spec_error.h"

namespace adjoin {
namespace {

// One value per spatial dim: what is written, or `absent` in each dim.
template <typename List>
absl::StatusOr<std::vector<int64_t>> PerDim(const char* name, const List& list, const std::vector<int64_t>& absent) {
  if (list.empty()) return absent;
  if (list.size() == 1) return std::vector<int64_t>(absent.size(), list.Get(0));
  if (list.size() != static_cast<int>(absent.size())) {
    return AtField(name, InvalidSpec("window.", name, " has ", list.size(),
                                     " values; write one, or one for each of the ", absent.size(), " spatial dims"));
  }
  return std::vector<int64_t>(list.begin(), list.end());
}

// The mesh axes that cut the batch and the spatial dims may be any; the channels are whole on every rank.
absl::Status CheckChannels(const Layout& x) {
  if (x.Parts(1) == 1) return absl::OkStatus();
  return AtField(
      "x", NotSupportedYet(absl::StrCat("an input that is cut in its channels (dim 1, into ", x.Parts(1), " parts)"),
                           "cut the batch or the spatial dims instead, in the layout x"));
}

Layout::Cuts KeptCuts(const Layout& x, const std::map<int, Reading>& windows) {
  Layout::Cuts cuts;
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (windows.count(dim) > 0 || dim == 1 || x.AxesOf(dim).empty()) continue;
    cuts[dim] = PartSizes(x, dim);
  }
  return cuts;
}

// Whether windows lead from x to y: spatial cuts of y are free, all else is as in x.
bool Reachable(const Layout& x, const std::map<int, Reading>& windows, const Layout& y) {
  if (x.mesh() != y.mesh() || x.placements() != y.placements()) return false;
  for (int dim = 0; dim < x.dims(); ++dim) {
    if (windows.count(dim) == 0 && dim != 1 && x.Boundaries(dim) != y.Boundaries(dim)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<WindowedDims> WindowsOf(const WindowSpec& spec, const std::vector<int64_t>& input, bool pooling,
                                       bool ceil_mode) {
  if (input.size() < 3 || input.size() > 5) {
    return AtField("", InvalidSpec("it reads [batch, channel, 1 to 3 spatial dims]; its input, ", ShapeText(input),
                                   ", has ", input.size(), " dims"));
  }
  const size_t spatial = input.size() - 2;
  if (spec.kernel().empty()) return AtField("kernel", InvalidSpec("window.kernel is missing; write kernel: 3, say"));
  ADJOIN_ASSIGN_OR_RETURN(const auto kernel, PerDim("kernel", spec.kernel(), std::vector<int64_t>(spatial, 0)));
  const std::vector<int64_t> ones(spatial, 1);
  ADJOIN_ASSIGN_OR_RETURN(const auto stride, PerDim("stride", spec.stride(), pooling ? kernel : ones));
  ADJOIN_ASSIGN_OR_RETURN(const auto dilation, PerDim("dilation", spec.dilation(), ones));
  ADJOIN_ASSIGN_OR_RETURN(const auto pad_lo, PerDim("pad_lo", spec.pad_lo(), std::vector<int64_t>(spatial, 0)));
  ADJOIN_ASSIGN_OR_RETURN(const auto pad_hi, PerDim("pad_hi", spec.pad_hi(), pad_lo));
  auto boundary = ParseBoundary(spec.boundary());
  if (!boundary.ok()) return AtField("boundary", boundary.status());
  if (*boundary != Boundary::kZeros) {
    return AtField("boundary", NotSupportedYet(absl::StrCat("boundary \"", spec.boundary(), "\""), "\"zeros\" is"));
  }
  for (size_t i = 0; i < spatial; ++i) {
    if (pad_lo[i] >= 0 && pad_hi[i] >= 0) continue;
    return AtField(pad_lo[i] < 0 ? "pad_lo" : "pad_hi",
                   InvalidSpec("padding ", std::min(pad_lo[i], pad_hi[i]),
                               " is negative; to leave out elements, put a crop layer before this one"));
  }
  WindowedDims result;
  result.filled.set_boundary(ToString(*boundary));
  for (size_t i = 0; i < spatial; ++i) {
    Window::Options options{kernel[i], stride[i], dilation[i], pad_lo[i], pad_hi[i], *boundary, ceil_mode};
    ADJOIN_ASSIGN_OR_RETURN(const Window window, Window::Create(options));
    if (pooling && 2 * std::max(pad_lo[i], pad_hi[i]) > kernel[i]) {
      return AtField(
          2 * pad_lo[i] > kernel[i] ? "pad_lo" : "pad_hi",
          InvalidSpec("padding ", std::max(pad_lo[i], pad_hi[i]), " of a pooling is more than half of its kernel, ",
                      kernel[i], ", so that some outputs would see padding only"));
    }
    const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
    // In ceil_mode, LibTorch lets the last window, which may be the only one, reach past the padding.
    if (reach > input[i + 2] + pad_lo[i] + pad_hi[i] && !(ceil_mode && window.OutputSize(input[i + 2]).ok())) {
      return AtField(
          "kernel",
          InvalidSpec("kernel ", kernel[i], dilation[i] > 1 ? absl::StrCat(" with dilation ", dilation[i]) : "", " (",
                      reach, " elements) is larger than the padded input in dim ", i + 2, ": ", input[i + 2], " + ",
                      pad_lo[i], " + ", pad_hi[i], " = ", input[i + 2] + pad_lo[i] + pad_hi[i]));
    }
    ADJOIN_ASSIGN_OR_RETURN(const int64_t outputs, window.OutputSize(input[i + 2]));
    result.windows.emplace(static_cast<int>(i) + 2, window);
    result.outputs.push_back(outputs);
    result.filled.add_kernel(kernel[i]);
    result.filled.add_stride(stride[i]);
    result.filled.add_dilation(dilation[i]);
    result.filled.add_pad_lo(pad_lo[i]);
    result.filled.add_pad_hi(pad_hi[i]);
  }
  return result;
}

absl::StatusOr<WindowedLayouts> LayoutsOf(const LayerRequest& request, const std::map<int, Reading>& windows,
                                          const std::vector<int64_t>& shape) {
  const Layout& x = request.input[0];
  ADJOIN_RETURN_IF_ERROR(CheckChannels(x));
  ADJOIN_ASSIGN_OR_RETURN(Layout even,
                          Layout::Create(shape, x.dtype(), x.mesh(), x.placements(), KeptCuts(x, windows)));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, shape, even));
  if (Reachable(x, windows, output)) return WindowedLayouts{output, output};
  return WindowedLayouts{std::move(even), std::move(output)};
}

}  // namespace adjoin
