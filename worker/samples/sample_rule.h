// The number of samples in an array file, and the shape of one.
//
//   *SamplesIn(header, {{1, 28, 28}});        // 60000 of 60000x28x28; 1 of 28x28
//   *SampleShapeIn(header, {1, -1, -1, -1});  // {1, 98, 512, 512} of 98x512x512
//
// Any thread. No LibTorch.
#ifndef ADJOIN_WORKER_SAMPLES_SAMPLE_RULE_H_
#define ADJOIN_WORKER_SAMPLES_SAMPLE_RULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/array_header.h"

namespace adjoin {

// A NIfTI file is one sample, and has its extents; so is another file whose extents are the sample's. Extents of 1 do
// not count. Else the first dim counts samples, and the others have as many cells as a sample, with dims merged or
// split: 784 where the sample has 28x28; but not the sample's extents in another order, which would be other cells.
// Where `sample_shape` has varying extents, every file is one sample.
// `sample_shape`: absent where it is not known: then a NIfTI file is one sample, and the first dim of another file
// counts.
// Errors: kInvalidArgument (other cells than a sample has, or other extents), with the extents of both.
absl::StatusOr<int64_t> SamplesIn(const ArrayHeader& header, const std::optional<std::vector<int64_t>>& sample_shape);

// Returns `sample_shape` with the file's extents where it has varying ones. Such a file has the dims from the first
// of these on, and before them those of `sample_shape`; of the latter, extents of 1 do not count. A NIfTI file
// with fewer dims has extents of 1 before them.
// Errors: kInvalidArgument (other extents, or one of 0).
absl::StatusOr<std::vector<int64_t>> SampleShapeIn(const ArrayHeader& header, const std::vector<int64_t>& sample_shape);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_RULE_H_
