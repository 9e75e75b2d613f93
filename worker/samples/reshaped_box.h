// A box of an array that is seen in another shape with as many cells, as boxes of the array's own shape.
//
//   // an image of two channels, kept as one array of 8x3
//   ReshapedBox box = BoxesUnder({2, 4, 3}, Box({{0, 2}, {1, 3}, {0, 2}}), {8, 3});
//   box.parts.size();                // 2: rows 1 and 2, and rows 5 and 6
//
// Pure functions; any thread.
#ifndef ADJOIN_WORKER_SAMPLES_RESHAPED_BOX_H_
#define ADJOIN_WORKER_SAMPLES_RESHAPED_BOX_H_

#include <cstdint>
#include <vector>

#include "primitives/geometry/box.h"

namespace adjoin {

struct ReshapedPart {
  Box box;                       // in the array's own shape
  std::vector<int64_t> at;       // its first cell's position in the box that was asked for, in ReshapedBox::extents
  std::vector<int64_t> extents;  // its extents there; the row-major order of its cells is the same in both
};

struct ReshapedBox {
  // The extents of the box that was asked for, with neighbouring dims merged where the shapes need it: as many cells,
  // in the same order.
  std::vector<int64_t> extents;
  std::vector<ReshapedPart> parts;  // cover it, each cell once; none for an empty box
};

// `box` is within `seen`. `seen` and `own` have as many cells; no extent of either is 0.
ReshapedBox BoxesUnder(const std::vector<int64_t>& seen, const Box& box, const std::vector<int64_t>& own);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_RESHAPED_BOX_H_
