// The shape of one sample of a data set, and the number of samples.
//
//   SampleShape(dataset, field);        // {1, 32, 32, 32}: a block's, where the data set has blocks
//   UsedSamples(dataset, in_files);     // after `limit`
//   SampleCount(dataset, in_files);     // after `limit` and `blocks`
//   HasVaryingExtents(field);           // true of shape: [1, -1, -1, -1]
#ifndef ADJOIN_PLANNER_SPEC_SAMPLE_SHAPE_H_
#define ADJOIN_PLANNER_SPEC_SAMPLE_SHAPE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/spec/grid_strides.h"
#include "proto/job.pb.h"

namespace adjoin {

// In Field.shape: the extent differs from file to file. -1 is any; -s, a power of 2, one of a grid that is coarser by s
// (grid_strides.h).
inline bool IsVaryingExtent(int64_t extent) { return extent < 0; }

inline bool HasVaryingExtents(const Field& field) {
  return std::any_of(field.shape().begin(), field.shape().end(), IsVaryingExtent);
}

// True where a field of the data set has.
inline bool HasVaryingExtents(const Dataset& dataset) {
  return std::any_of(dataset.field().begin(), dataset.field().end(),
                     [](const Field& field) { return HasVaryingExtents(field); });
}

// Returns the shape without the batch dim. A field with fewer dims than a block has is not cut into blocks; one on a
// coarser grid has blocks with as many fewer cells.
inline std::vector<int64_t> SampleShape(const Dataset& dataset, const Field& field) {
  std::vector<int64_t> shape(field.shape().begin(), field.shape().end());
  const auto& block = dataset.blocks().size();
  if (static_cast<size_t>(block.size()) > shape.size()) return shape;
  const std::vector<int64_t> strides = GridStrides(dataset, field);
  for (int dim = 0; dim < static_cast<int>(strides.size()) && dataset.has_blocks(); ++dim) {
    shape[shape.size() - strides.size() + dim] = block[dim] / std::max<int64_t>(1, strides[dim]);
  }
  return shape;
}

// Returns how many samples of the files are used, the first ones, where they hold `in_files`.
inline int64_t UsedSamples(const Dataset& dataset, int64_t in_files) {
  return dataset.has_limit() ? std::min(dataset.limit(), in_files) : in_files;
}

// Returns the number of samples in an epoch, where the files hold `in_files`.
inline int64_t SampleCount(const Dataset& dataset, int64_t in_files) {
  const int64_t used = UsedSamples(dataset, in_files);
  return dataset.has_blocks() && used > 0 ? dataset.blocks().per_epoch() : used;
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SAMPLE_SHAPE_H_
