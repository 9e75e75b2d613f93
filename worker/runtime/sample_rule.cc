#include "worker/runtime/sample_rule.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {
namespace {

std::vector<int64_t> WithoutOnes(std::vector<int64_t> shape) {
  shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
  return shape;
}

// More cells than any file has, as an overflow would, fit no file.
int64_t CellsOf(const std::vector<int64_t>& shape) {
  int64_t cells = 1;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(cells, extent, &cells)) return INT64_MAX;
  }
  return cells;
}

}  // namespace

absl::StatusOr<int64_t> SamplesIn(const ArrayHeader& header, const std::optional<std::vector<int64_t>>& sample_shape) {
  const bool one = header.format == "nifti" || header.shape.empty() ||
                   (sample_shape.has_value() && WithoutOnes(header.shape) == WithoutOnes(*sample_shape));
  if (!sample_shape.has_value()) return one ? 1 : header.shape[0];
  const int64_t wanted = CellsOf(*sample_shape);
  const int64_t has = CellsOf(one ? header.shape : std::vector<int64_t>(header.shape.begin() + 1, header.shape.end()));
  if (wanted == has) return one ? 1 : header.shape[0];
  return absl::InvalidArgumentError(absl::StrCat(
      "shape [", absl::StrJoin(*sample_shape, ", "), "] has ", wanted, " cells a sample, the file (", header.ToString(),
      one ? "), which is one sample, has " : ") has ", has));
}

}  // namespace adjoin
