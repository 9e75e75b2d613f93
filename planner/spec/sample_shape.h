// The shape of one sample of a data set, and the number of samples.
//
//   SampleShape(dataset, field);        // {1, 32, 32, 32}: a block's, where the data set has blocks
//   SampleCount(dataset, in_files);     // after `limit` and `blocks`
//   HasVaryingExtents(field);           // true of shape: [1, -1, -1, -1]
#ifndef ADJOIN_PLANNER_SPEC_SAMPLE_SHAPE_H_
#define ADJOIN_PLANNER_SPEC_SAMPLE_SHAPE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

// In Field.shape: the extent differs from file to file.
inline constexpr int64_t kVaryingExtent = -1;

inline bool HasVaryingExtents(const Field& field) {
  return std::find(field.shape().begin(), field.shape().end(), kVaryingExtent) != field.shape().end();
}

// True where a field of the data set has.
inline bool HasVaryingExtents(const Dataset& dataset) {
  return std::any_of(dataset.field().begin(), dataset.field().end(),
                     [](const Field& field) { return HasVaryingExtents(field); });
}

// Returns the shape without the batch dim. A field with fewer dims than a block has is not cut into blocks.
inline std::vector<int64_t> SampleShape(const Dataset& dataset, const Field& field) {
  std::vector<int64_t> shape(field.shape().begin(), field.shape().end());
  const auto& block = dataset.blocks().size();
  if (static_cast<size_t>(block.size()) > shape.size()) return shape;
  std::copy(block.begin(), block.end(), shape.end() - block.size());
  return shape;
}

// Returns the number of samples in an epoch, where the files hold `in_files`.
inline int64_t SampleCount(const Dataset& dataset, int64_t in_files) {
  const int64_t used = dataset.has_limit() ? std::min(dataset.limit(), in_files) : in_files;
  return dataset.has_blocks() && used > 0 ? dataset.blocks().per_epoch() : used;
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SAMPLE_SHAPE_H_
