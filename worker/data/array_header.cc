#include "worker/data/array_header.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {

int64_t ArrayHeader::Cells() const {
  // An array without cells may have other extents of any size.
  if (std::count(shape.begin(), shape.end(), 0) > 0) return 0;
  int64_t cells = 1;
  for (int64_t extent : shape) cells *= extent;
  return cells;
}

std::string ArrayHeader::ToString() const { return absl::StrCat(ShapeText(shape), " ", adjoin::ToString(type)); }

absl::Status CheckArraySize(const std::string& name, const ArrayHeader& header, int64_t offset) {
  // Without the extents of 0, so that the others have a product too.
  int64_t bytes = SizeOf(header.type);
  bool overflow = false;
  for (int64_t extent : header.shape) {
    if (extent != 0) overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
  }
  overflow |= __builtin_add_overflow(bytes, offset, &bytes);
  if (!overflow) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(name, ": its ", absl::AsciiStrToUpper(header.format), " header claims ",
                                          header.ToString(), ", more bytes than any file has"));
}

absl::Status CheckBox(const std::string& name, const ArrayHeader& header, const Box& box) {
  if (box.dims() == static_cast<int>(header.shape.size()) && Box::Whole(header.shape).Contains(box)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": the cells ", box.ToString(), " are not all in the array, ", header.ToString()));
}

absl::Status ArrayLengthError(const std::string& name, const StoredArray& array, int64_t found) {
  const int64_t expected = array.DataBytes();
  if (found < expected) {
    return absl::DataLossError(absl::StrCat(name, ": truncated: its header names ", array.header.ToString(), ", so ",
                                            expected, " bytes of data were expected, found ",
                                            std::max<int64_t>(found, 0)));
  }
  return absl::DataLossError(absl::StrCat(name, ": trailing bytes: its header names ", array.header.ToString(), ", so ",
                                          expected, " bytes of data were expected, but more follow"));
}

}  // namespace adjoin
