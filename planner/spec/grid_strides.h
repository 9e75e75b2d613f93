// The grids of a data set's fields: a field may be coarser than the others, as the targets of deep supervision are.
//
//   // field "image": [1, 96, 96, 40], field "label4": [24, 24, 10], blocks { size: [32, 32, 16] }
//   GridStrides(dataset, label4);   // {4, 4, 4}: the field's blocks are 8x8x4, from a fourth of the start on
//   CommonStrides(dataset);         // {4, 4, 4}: the starts of blocks are multiples of it
//
// The finest grid is that of the first field with spatial dims (SpatialDims); others have, in each dim, as many cells
// or 1 / 2^k of them, rounded up. Where extents differ from file to file, the field says so: -1 is any extent, -2 half
// of it, -4 a fourth.
#ifndef ADJOIN_PLANNER_SPEC_GRID_STRIDES_H_
#define ADJOIN_PLANNER_SPEC_GRID_STRIDES_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

// Returns, for each spatial dim, how many cells of the finest grid one cell of the field is long: a power of 2; 0 where
// its extent is that of no such grid. Empty where the field has no spatial dims.
std::vector<int64_t> GridStrides(const Dataset& dataset, const Field& field);

// Returns the least common multiple of all fields' strides, for each spatial dim. Those that are 0 count as 1.
std::vector<int64_t> CommonStrides(const Dataset& dataset);

// Returns the extent of the grid that is coarser by `stride`.
inline int64_t CoarserExtent(int64_t extent, int64_t stride) {
  return extent / stride + (extent % stride == 0 ? 0 : 1);
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_GRID_STRIDES_H_
