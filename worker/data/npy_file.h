// The header of NumPy's .npy files, versions 1 to 3, of numbers and booleans.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open("a.npy"));
//   ADJOIN_ASSIGN_OR_RETURN(StoredArray array, ReadNpyHeader(*source));
//
// Source: "numpy.lib.format" of NumPy's documentation. Any thread.
#ifndef ADJOIN_WORKER_DATA_NPY_FILE_H_
#define ADJOIN_WORKER_DATA_NPY_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/array_header.h"
#include "worker/data/byte_source.h"

namespace adjoin {

// `source` at its beginning is then at the first cell. The sizes are not yet compared with the file.
// Errors, with the file's name: kInvalidArgument (no .npy file, or cells that are no numbers, by name); kDataLoss (ends
// within its header, or a header that cannot be read).
absl::StatusOr<StoredArray> ReadNpyHeader(ByteSource& source);

// All that comes before the first cell of a little-endian file in C order.
std::string NpyHeaderBytes(CellType type, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_NPY_FILE_H_
