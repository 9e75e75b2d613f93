// What every device asks of DeviceStream::CopyRows, and the copies that are one span after all.
#ifndef ADJOIN_PRIMITIVES_DEVICE_ROW_COPY_H_
#define ADJOIN_PRIMITIVES_DEVICE_ROW_COPY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {

// Errors: kInvalidArgument (rows that overlap: a pitch below the bytes of a row).
inline absl::Status CheckPitches(std::size_t to_pitch, std::size_t from_pitch, std::size_t row_bytes,
                                 std::size_t rows) {
  if (rows < 2 || (to_pitch >= row_bytes && from_pitch >= row_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a copy of ", rows, " rows of ", row_bytes,
                                                 " bytes, which begin every ", from_pitch, " bytes, to every ",
                                                 to_pitch, " bytes: rows must not overlap"));
}

// True where the rows lie in one span on both sides.
inline bool RowsAreOneSpan(std::size_t to_pitch, std::size_t from_pitch, std::size_t row_bytes, std::size_t rows) {
  return rows == 1 || (to_pitch == row_bytes && from_pitch == row_bytes);
}

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_ROW_COPY_H_
