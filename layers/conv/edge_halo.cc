#include "layers/conv/edge_halo.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/conv/edge_roles.h"
#include "primitives/geometry/edge_window.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

// As many outputs as inputs, each in the middle of what it reads.
bool IsCentred(const Window::Options& window) {
  return window.stride == 1 && window.boundary == Boundary::kZeros && window.pad_lo == window.pad_hi &&
         2 * window.pad_lo == window.dilation * (window.kernel - 1);
}

// Whether each part of `x` has `stride` inputs for each output of its part of `y`.
bool IsCutInSteps(const Layout& x, const Layout& y, int dim, int64_t stride) {
  const std::vector<int64_t>& inputs = x.Boundaries(dim);
  const std::vector<int64_t>& outputs = y.Boundaries(dim);
  return std::equal(inputs.begin(), inputs.end(), outputs.begin(), outputs.end(),
                    [stride](int64_t input, int64_t output) { return input == stride * output; });
}

// The part's cells and those beside it: of a window of stride 1, since it is the inputs that are counted.
absl::StatusOr<Window> PartWithEdges(const WindowEdges& edges) {
  const int64_t before = edges.before.cells, after = edges.after.cells;
  return Window::Create({.kernel = before + 1 + after, .pad_lo = before, .pad_hi = after});
}

int64_t ShortestPart(const Layout& layout, int dim) {
  const std::vector<int64_t> sizes = PartSizes(layout, dim);
  return *std::min_element(sizes.begin(), sizes.end());
}

}  // namespace

absl::StatusOr<std::vector<MovementNeed>> EdgeMovements(const Layout& x, const std::map<int, Reading>& windows,
                                                        const Layout& y, int64_t smallest) {
  const std::vector<MovementNeed> none;
  std::map<int, WindowEdges> cut;  // by cut dim that is read beyond the own cells
  int64_t least = 1;               // elements of one sample in the smallest part
  for (int dim = 0; dim < x.dims(); ++dim) {
    const int64_t shortest = ShortestPart(x, dim);
    if (dim > 0) least *= shortest;
    const auto entry = windows.find(dim);
    if (entry == windows.end()) continue;
    const Window* window = entry->second.As<Window>();
    if (window == nullptr) return none;
    if (x.Parts(dim) == 1 && y.Parts(dim) == 1) {
      // The kernel adds the zeros around a dim that is not cut.
      if (!IsPaddedAlike(window->options())) return none;
      continue;
    }
    const std::optional<WindowEdges> edges = EdgesOf(*window);
    if (!edges.has_value() || !IsCutInSteps(x, y, dim, window->options().stride)) return none;
    if (shortest < edges->before.cells + edges->after.cells) return none;
    if (edges->before.cells > 0) cut.emplace(dim, *edges);
  }
  if (least < smallest) return none;
  std::vector<MovementNeed> movements;
  for (auto entry = cut.begin(); entry != cut.end(); ++entry) {
    const auto& [dim, edges] = *entry;
    const int64_t before = edges.before.cells, after = edges.after.cells;
    MovementNeed need{.role = EdgeRole(dim), .from = x, .to = x};
    ADJOIN_ASSIGN_OR_RETURN(const EdgeWindow inner, EdgeWindow::Create({before, after, /*inner=*/true}));
    ADJOIN_ASSIGN_OR_RETURN(const EdgeWindow outer, EdgeWindow::Create({before, after, /*inner=*/false}));
    need.source.emplace(dim, inner);
    need.readings.emplace(dim, outer);
    // Later dims with their halos: the corners.
    for (auto later = std::next(entry); later != cut.end(); ++later) {
      ADJOIN_ASSIGN_OR_RETURN(const Window wide, PartWithEdges(later->second));
      need.readings.emplace(later->first, wide);
    }
    movements.push_back(std::move(need));
  }
  return movements;
}

std::map<int, Reading> WithoutPaddedDims(std::map<int, Reading> windows, const Layout& x, const Layout& y) {
  for (auto entry = windows.begin(); entry != windows.end();) {
    const auto& [dim, reading] = *entry;
    const Window* window = reading.As<Window>();
    const bool padded = window != nullptr && IsCentred(window->options()) && x.Parts(dim) == 1 && y.Parts(dim) == 1;
    entry = padded ? windows.erase(entry) : std::next(entry);
  }
  return windows;
}

absl::StatusOr<Window> WindowOfConv(const Conv& conv, int dim) {
  const WindowSpec& spec = conv.window();
  const int i = dim - 2;
  if (i < 0 || i >= std::min({spec.kernel_size(), spec.stride_size(), spec.dilation_size(), spec.pad_lo_size(),
                              spec.pad_hi_size()})) {
    return absl::InvalidArgumentError(absl::StrCat("the convolution's window has no numbers for dim ", dim));
  }
  Window::Options options{.kernel = spec.kernel(i),
                          .stride = spec.stride(i),
                          .dilation = spec.dilation(i),
                          .pad_lo = spec.pad_lo(i),
                          .pad_hi = spec.pad_hi(i)};
  ADJOIN_ASSIGN_OR_RETURN(options.boundary, ParseBoundary(spec.boundary()));
  return Window::Create(options);
}

absl::StatusOr<WindowEdges> EdgesOfConv(const Conv& conv, int dim) {
  ADJOIN_ASSIGN_OR_RETURN(const Window window, WindowOfConv(conv, dim));
  const std::optional<WindowEdges> edges = EdgesOf(window);
  if (edges.has_value()) return *edges;
  return absl::InvalidArgumentError(absl::StrCat("a part of dim ", dim, " has no edges for ", window.ToString()));
}

}  // namespace adjoin
