#include "worker/samples/sample_extents.h"

#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/spec/augment.h"
#include "planner/spec/grid_strides.h"
#include "planner/spec/sample_shape.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {

SampleExtents::SampleExtents(const Dataset& dataset)
    : dims_(static_cast<size_t>(SpatialDims(dataset))),
      block_(dataset.blocks().size().begin(), dataset.blocks().size().end()) {
  for (const Field& field : dataset.field()) {
    if (!HasSpatialDims(dataset, field.shape_size())) continue;
    std::vector<int64_t>& strides = strides_[field.name()];
    for (int dim = field.shape_size() - static_cast<int>(dims_); dim < field.shape_size(); ++dim) {
      strides.push_back(IsVaryingExtent(field.shape(dim)) ? -field.shape(dim) : 0);
    }
  }
}

absl::Status SampleExtents::Add(const std::string& field, const std::string& file, const std::vector<int64_t>& shape) {
  if (shape.size() < dims_) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": has fewer dims than ", block_.empty() ? "are spatial" : "a block has", ", ", dims_));
  }
  const std::vector<int64_t> extents(shape.end() - static_cast<std::ptrdiff_t>(dims_), shape.end());
  const auto known = strides_.find(field);
  const std::vector<int64_t> strides = known != strides_.end() ? known->second : std::vector<int64_t>(dims_, 1);
  for (size_t dim = 0; dim < block_.size(); ++dim) {
    if (extents[dim] >= block_[dim] / std::max<int64_t>(1, strides[dim]) || strides[dim] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(file, ": its extents are ", ShapeText(extents),
                                                   ", smaller than a block of ", ShapeText(block_),
                                                   "; make the blocks smaller, leave the file out, or pad it"));
  }
  if (field != field_) {
    if (samples_.empty()) first_field_ = field;
    field_ = field;
    at_ = 0;
  }
  const int64_t sample = at_++;
  if (field == first_field_) {
    samples_.push_back({file, extents});
    return absl::OkStatus();
  }
  if (sample >= size()) return absl::OkStatus();  // where the fields have other numbers of samples, that is the error
  const Sample& first = samples_[sample];
  std::vector<int64_t> right = extents;
  for (size_t dim = 0; dim < dims_; ++dim) {
    if (strides[dim] > 0) right[dim] = CoarserExtent(first.extents[dim], strides[dim]);
  }
  if (extents == right) return absl::OkStatus();
  const bool coarser = std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride > 1; });
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": its extents are ", ShapeText(extents), ", those of ", first.file, " of field \"", first_field_,
      "\", the same sample, ", ShapeText(first.extents), "; they have to be ",
      coarser ? absl::StrCat(ShapeText(right), " on a grid that is coarser by ", ShapeText(strides)) : "the same"));
}

uint64_t SampleExtents::Hash() const {
  uint64_t hash = dims_;
  for (const Sample& sample : samples_) {
    hash = XXH64(sample.extents.data(), sample.extents.size() * sizeof(int64_t), hash);
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace adjoin
