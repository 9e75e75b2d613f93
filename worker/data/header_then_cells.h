// Formats whose files are one header and then all cells, plain or gzip.
//
//   ArrayFormat NpyFormat() {
//     return HeaderThenCells({.name = "npy", .title = "NPY", .extension = ".npy", .sniff = LooksLikeNpy},
//     ReadNpyHeader,
//                            NpyHeaderBytes);
//   }
#ifndef ADJOIN_WORKER_DATA_HEADER_THEN_CELLS_H_
#define ADJOIN_WORKER_DATA_HEADER_THEN_CELLS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/array_format.h"
#include "worker/data/byte_source.h"

namespace adjoin {

// Reads the header; `source` is at its beginning. The result has passed CheckArraySize; its sizes need not be those of
// the file, with which they are compared afterwards. Errors name source.name(): kInvalidArgument (not of the format, or
// a kind of it that is not supported), kDataLoss (the header is truncated or corrupt).
using ReadHeader = std::function<absl::StatusOr<StoredArray>(ByteSource& source)>;

// Returns all bytes before the first cell of a little-endian, row-major file. Errors: kInvalidArgument.
using HeaderBytes = std::function<absl::StatusOr<std::string>(CellType type, const std::vector<int64_t>& shape,
                                                              const ArrayWriterOptions& options)>;

// Returns `format` with its functions but `sniff`, which it has. Without `header_bytes` its files cannot be written.
ArrayFormat HeaderThenCells(ArrayFormat format, ReadHeader read_header, HeaderBytes header_bytes = nullptr);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HEADER_THEN_CELLS_H_
