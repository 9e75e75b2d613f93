// What a window knows of its cells from their global positions.
//
//   WindowPositions positions({8, 6}, {4, 3}, {2, 0});            // padded extents, window, shift
//   positions.RelativeIndex();                                 // [12, 12]: row of the table of relative positions
//   positions.Hidden({{0, 4}, {0, 6}});                        // [1 * 2, 12, 12]: bool, of the windows in this part
//
// Cells of a window, and windows of a part, are in row-major order. Pure; any thread.
#ifndef ADJOIN_LAYERS_ATTENTION_WINDOW_POSITIONS_H_
#define ADJOIN_LAYERS_ATTENTION_WINDOW_POSITIONS_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/box.h"

namespace adjoin {

class WindowPositions {
 public:
  // Per spatial dim: extents that are multiples of the window; a shift below it, 0 where nothing was rolled.
  WindowPositions(std::vector<int64_t> padded, std::vector<int64_t> window, std::vector<int64_t> shift);

  int64_t cells() const { return cells_; }
  // int64 [cells, cells]: by query and key, the row of a table of (2 window - 1) rows per dim, as torchvision's
  // relative_position_index.
  at::Tensor RelativeIndex() const;
  // Whether any two cells of one window come from two ends of the tensor.
  bool AnyHidden() const;
  // bool [windows of the part, cells, cells]: whether query and key lie in different regions of the rolled tensor.
  // `part`: whole windows, per spatial dim.
  at::Tensor Hidden(const std::vector<Interval>& part, at::Device device = at::kCPU) const;

 private:
  const std::vector<int64_t> padded_, window_, shift_;
  int64_t cells_ = 1;
};

// [n, extents ..., channels] to [n * windows, cells, channels], and back. Extents are multiples of the window; not
// empty.
at::Tensor ToWindows(const at::Tensor& x, const std::vector<int64_t>& window);
at::Tensor FromWindows(const at::Tensor& windows, const std::vector<int64_t>& window,
                       const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_WINDOW_POSITIONS_H_
