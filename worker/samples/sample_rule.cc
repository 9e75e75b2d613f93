#include "worker/samples/sample_rule.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/data/array_formats.h"

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

// True where both have the same extents, in another order.
bool Permuted(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return a != b && a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
}

std::string TextOf(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

}  // namespace

absl::StatusOr<int64_t> SamplesIn(const ArrayHeader& header, const std::optional<std::vector<int64_t>>& sample_shape) {
  const ArrayFormat* const format = BuiltinArrayFormats().Find(header.format);
  const bool volume = format != nullptr && !format->volume_dims.empty();
  const bool one = volume || header.shape.empty() ||
                   (sample_shape.has_value() && WithoutOnes(header.shape) == WithoutOnes(*sample_shape));
  if (!sample_shape.has_value()) return one ? 1 : header.shape[0];
  const int64_t wanted = CellsOf(*sample_shape);
  const std::vector<int64_t> in_file(header.shape.begin() + (one ? 0 : 1), header.shape.end());
  const int64_t has = CellsOf(in_file);
  const std::string hint =
      format != nullptr && !format->shape_hint.empty() ? absl::StrCat("; ", format->shape_hint) : "";
  if (wanted != has) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", TextOf(*sample_shape), " has ", wanted,
                                                   " cells a sample, the file (", header.ToString(),
                                                   one ? "), which is one sample, has " : ") has ", has, hint));
  }
  const std::vector<int64_t> extents = WithoutOnes(in_file);
  const std::vector<int64_t> right = WithoutOnes(*sample_shape);
  if (volume ? extents != right : Permuted(extents, right)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", TextOf(*sample_shape), " is not that of ", one ? "the file" : "the file's samples",
                     ", which is ", TextOf(in_file), volume ? "" : ": the same extents in another order", hint));
  }
  return one ? 1 : header.shape[0];
}

}  // namespace adjoin
