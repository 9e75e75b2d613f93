#include "worker/samples/field_source.h"

#include "worker/samples/file_samples.h"
#include "worker/samples/synthetic_samples.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<FieldSource>> OpenFieldSource(const Dataset& dataset, const Field& field,
                                                             const std::vector<int64_t>& sample_shape, uint64_t seed,
                                                             const DataFolder& data) {
  if (field.has_synthetic()) return SyntheticSamples::Create(dataset.name(), field, sample_shape, seed);
  return FileSamples::Open(field, sample_shape, data);
}

}  // namespace adjoin
