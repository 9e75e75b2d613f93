#include "planner/spec/grid_strides.h"

#include <algorithm>

#include "planner/spec/augment.h"
#include "planner/spec/sample_shape.h"

namespace adjoin {
namespace {

// Returns 0 where there is none.
int64_t StrideOf(int64_t finest, int64_t extent) {
  if (IsVaryingExtent(finest) != IsVaryingExtent(extent)) return 0;
  if (IsVaryingExtent(extent)) return extent % finest == 0 ? extent / finest : 0;
  if (extent < 1) return 0;
  int64_t stride = 1;
  while (CoarserExtent(finest, stride) > extent) stride *= 2;
  return CoarserExtent(finest, stride) == extent ? stride : 0;
}

}  // namespace

std::vector<int64_t> GridStrides(const Dataset& dataset, const Field& field) {
  std::vector<int64_t> strides;
  if (!HasSpatialDims(dataset, field.shape_size())) return strides;
  const auto finest = std::find_if(dataset.field().begin(), dataset.field().end(),
                                   [&](const Field& other) { return HasSpatialDims(dataset, other.shape_size()); });
  if (finest == dataset.field().end()) return strides;
  const int spatial = SpatialDims(dataset);
  for (int dim = 0; dim < spatial; ++dim) {
    strides.push_back(
        StrideOf(finest->shape(finest->shape_size() - spatial + dim), field.shape(field.shape_size() - spatial + dim)));
  }
  return strides;
}

std::vector<int64_t> CommonStrides(const Dataset& dataset) {
  std::vector<int64_t> common(SpatialDims(dataset), 1);
  for (const Field& field : dataset.field()) {
    const std::vector<int64_t> strides = GridStrides(dataset, field);
    // Powers of 2: the largest is a multiple of all.
    for (size_t dim = 0; dim < strides.size(); ++dim) common[dim] = std::max(common[dim], strides[dim]);
  }
  return common;
}

}  // namespace adjoin
