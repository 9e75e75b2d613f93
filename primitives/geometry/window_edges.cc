#include "primitives/geometry/window_edges.h"

#include <algorithm>

#include "primitives/geometry/box.h"
#include "primitives/geometry/integer_division.h"

namespace adjoin {
namespace {

WindowEdges::Side SideOf(const Window& window, int64_t cells) {
  if (cells == 0) return {};
  const int64_t outputs = CeilDiv(cells, window.options().stride);
  return {cells, outputs, window.Reads({0, outputs}).size()};
}

}  // namespace

bool IsPaddedAlike(const Window::Options& window) {
  return window.boundary == Boundary::kZeros && !window.ceil_mode && window.pad_lo == window.pad_hi &&
         window.pad_lo >= 0;
}

std::optional<WindowEdges> EdgesOf(const Window& window) {
  const Window::Options& o = window.options();
  if (!IsPaddedAlike(o)) return std::nullopt;
  // The padding is all that is beside the part, so it must leave place for the part's outputs, but not for one more.
  const int64_t read = window.Reads({0, 1}).size();
  const int64_t inside = read - 2 * o.pad_lo;
  if (inside < 1 || inside > o.stride) return std::nullopt;
  return WindowEdges{SideOf(window, o.pad_lo), SideOf(window, std::max<int64_t>(0, read - o.pad_lo - o.stride))};
}

}  // namespace adjoin
