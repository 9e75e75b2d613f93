// Data sets whose samples are whole volumes, each with extents of its own: Field.shape has -1, and there are no blocks.
// Such samples are evaluated and predicted one at a time, by a program for the extents of each.
//
//   HasWholeVolumes(dataset);                       // shape: [1, -1, -1, 512] without blocks
//   WithExtents(dataset, {98, 140, 512});           // the same data set with shape: [1, 98, 140, 512]
#ifndef ADJOIN_PLANNER_SPEC_WHOLE_VOLUMES_H_
#define ADJOIN_PLANNER_SPEC_WHOLE_VOLUMES_H_

#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

bool HasWholeVolumes(const Dataset& dataset);

// Returns the data set with the extents of one sample, in its spatial dims (SpatialDims), in place of each -1; of
// coarser grids, in place of -2, -4, ..., their own (grid_strides.h).
Dataset WithExtents(const Dataset& dataset, const std::vector<int64_t>& extents);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_WHOLE_VOLUMES_H_
