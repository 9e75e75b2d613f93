#include "planner/spec/whole_volumes.h"

#include "planner/spec/augment.h"
#include "planner/spec/grid_strides.h"
#include "planner/spec/sample_shape.h"

namespace adjoin {

bool HasWholeVolumes(const Dataset& dataset) { return !dataset.has_blocks() && HasVaryingExtents(dataset); }

Dataset WithExtents(const Dataset& dataset, const std::vector<int64_t>& extents) {
  const int spatial = SpatialDims(dataset);
  Dataset concrete = dataset;
  for (Field& field : *concrete.mutable_field()) {
    const int before = field.shape_size() - spatial;
    for (int dim = 0; dim < field.shape_size(); ++dim) {
      if (!IsVaryingExtent(field.shape(dim)) || dim < before) continue;
      field.set_shape(dim, CoarserExtent(extents[dim - before], -field.shape(dim)));
    }
  }
  return concrete;
}

}  // namespace adjoin
