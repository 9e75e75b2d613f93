#include "worker/samples/sample_rule.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/spec/sample_shape.h"
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

std::string HintOf(const ArrayFormat* format) {
  return format != nullptr && !format->shape_hint.empty() ? absl::StrCat("; ", format->shape_hint) : "";
}

// True where a file is one sample.
bool IsVolume(const ArrayFormat* format) { return format != nullptr && !format->volume_dims.empty(); }

bool Varies(const std::vector<int64_t>& shape) { return std::any_of(shape.begin(), shape.end(), IsVaryingExtent); }

}  // namespace

absl::StatusOr<std::vector<int64_t>> SampleShapeIn(const ArrayHeader& header,
                                                   const std::vector<int64_t>& sample_shape) {
  if (!Varies(sample_shape)) return sample_shape;
  const ArrayFormat* const format = BuiltinArrayFormats().Find(header.format);
  const auto first = std::find_if(sample_shape.begin(), sample_shape.end(), IsVaryingExtent);
  const auto varying = static_cast<size_t>(sample_shape.end() - first);
  std::vector<int64_t> in_file = header.shape;
  if (IsVolume(format) && in_file.size() < varying) in_file.insert(in_file.begin(), varying - in_file.size(), 1);
  std::vector<int64_t> found(sample_shape.begin(), first);
  bool fits = in_file.size() >= varying;
  if (fits) {
    fits = WithoutOnes({in_file.begin(), in_file.end() - varying}) == WithoutOnes(found);
    found.insert(found.end(), in_file.end() - varying, in_file.end());
  }
  for (size_t dim = 0; fits && dim < found.size(); ++dim) {
    fits = found[dim] > 0 && (IsVaryingExtent(sample_shape[dim]) || sample_shape[dim] == found[dim]);
  }
  if (fits) return found;
  return absl::InvalidArgumentError(
      absl::StrCat("the file has the extents ", TextOf(header.shape), "; shape is ", TextOf(sample_shape),
                   ", where each file is one sample and -1 is any extent from 1 on", HintOf(format)));
}

absl::StatusOr<int64_t> SamplesIn(const ArrayHeader& header, const std::optional<std::vector<int64_t>>& sample_shape) {
  const ArrayFormat* const format = BuiltinArrayFormats().Find(header.format);
  const bool volume = IsVolume(format);
  const bool one = volume || header.shape.empty() ||
                   (sample_shape.has_value() && WithoutOnes(header.shape) == WithoutOnes(*sample_shape));
  if (!sample_shape.has_value()) return one ? 1 : header.shape[0];
  if (Varies(*sample_shape)) {
    ADJOIN_RETURN_IF_ERROR(SampleShapeIn(header, *sample_shape).status());
    return 1;
  }
  const int64_t wanted = CellsOf(*sample_shape);
  const std::vector<int64_t> in_file(header.shape.begin() + (one ? 0 : 1), header.shape.end());
  const int64_t has = CellsOf(in_file);
  const std::string hint = HintOf(format);
  if (wanted != has) {
    const bool alike = WithoutOnes(header.shape).size() == WithoutOnes(*sample_shape).size();
    return absl::InvalidArgumentError(absl::StrCat(
        "the file (", header.ToString(), ") ",
        one ? "is one sample" : absl::StrCat("has ", header.shape[0], " samples"), " of ", TextOf(in_file),
        "; shape is ", TextOf(*sample_shape),
        alike ? "; where each file is a sample with extents of its own, write -1 for those, and blocks to train on"
              : "",
        hint));
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
