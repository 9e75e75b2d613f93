#include "worker/samples/sample_extents.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {

absl::Status SampleExtents::Add(const std::string& field, const std::string& file, const std::vector<int64_t>& shape) {
  if (shape.size() < block_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": has fewer dims than a block, which has ", block_.size()));
  }
  const std::vector<int64_t> extents(shape.end() - block_.size(), shape.end());
  for (size_t dim = 0; dim < block_.size(); ++dim) {
    if (extents[dim] >= block_[dim]) continue;
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
  // Where the fields have other numbers of samples, that is the error.
  if (sample >= size() || samples_[sample].extents == extents) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": its extents are ", ShapeText(extents), ", those of ", samples_[sample].file, " of field \"",
      first_field_, "\", the same sample, ", ShapeText(samples_[sample].extents), "; they have to be the same"));
}

uint64_t SampleExtents::Hash() const {
  uint64_t hash = block_.size();
  for (const Sample& sample : samples_) {
    hash = XXH64(sample.extents.data(), sample.extents.size() * sizeof(int64_t), hash);
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace adjoin
