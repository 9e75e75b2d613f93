#include "layers/conv/edge_halo.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

int64_t ShortestPart(const Layout& layout, int dim) {
  const std::vector<int64_t> sizes = PartSizes(layout, dim);
  return *std::min_element(sizes.begin(), sizes.end());
}

}  // namespace

absl::StatusOr<std::vector<MovementNeed>> EdgeMovements(const Layout& x, const std::map<int, Reading>& windows,
                                                        const Layout& y, int64_t smallest) {
  const std::vector<MovementNeed> none;
  std::map<int, Reading> halos;  // by cut dim, as the general way would read them
  int64_t least = 1;             // elements of one sample in the smallest part
  for (int dim = 0; dim < x.dims(); ++dim) {
    const int64_t shortest = ShortestPart(x, dim);
    if (dim > 0) least *= shortest;
    const auto entry = windows.find(dim);
    if (entry == windows.end()) continue;
    const Window* window = entry->second.As<Window>();
    if (window == nullptr || !IsCentred(window->options())) return none;
    if (x.Parts(dim) == 1) continue;
    const int64_t reach = window->options().pad_lo;
    if (x.Boundaries(dim) != y.Boundaries(dim) || shortest < 2 * reach) return none;
    if (reach > 0) halos.emplace(dim, entry->second);
  }
  if (least < smallest) return none;
  std::vector<MovementNeed> movements;
  while (!halos.empty()) {
    const auto [dim, window] = *halos.begin();
    halos.erase(halos.begin());
    const int64_t reach = window.As<Window>()->options().pad_lo;
    MovementNeed need{.role = EdgeRole(dim), .from = x, .to = x};
    ADJOIN_ASSIGN_OR_RETURN(const EdgeWindow inner, EdgeWindow::Create({reach, reach, /*inner=*/true}));
    ADJOIN_ASSIGN_OR_RETURN(const EdgeWindow outer, EdgeWindow::Create({reach, reach, /*inner=*/false}));
    need.source.emplace(dim, inner);
    // Later dims with their halos: the corners.
    need.readings = halos;
    need.readings.emplace(dim, outer);
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

}  // namespace adjoin
