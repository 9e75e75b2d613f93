// NumPy's .npy files, versions 1 to 3, with numbers or booleans. Version 1 is written, in C order.
//
// Source: "numpy.lib.format" of NumPy's documentation.
#ifndef ADJOIN_WORKER_DATA_NPY_FILE_H_
#define ADJOIN_WORKER_DATA_NPY_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/array_format.h"
#include "worker/data/cell_type.h"

namespace adjoin {

// Files are refused with kInvalidArgument (no .npy file, or cells that are no numbers, by name) and kDataLoss
// (truncated, or a header that cannot be read).
ArrayFormat NpyFormat();

// Returns all bytes before the first cell of a little-endian file in C order.
std::string NpyHeaderBytes(CellType type, const std::vector<int64_t>& shape);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_NPY_FILE_H_
