// Cells of array files from numbers, for tests that write such files.
//
//   std::vector<unsigned char> bytes(values.size() * SizeOf(CellType::kInt16));
//   EncodeCells(CellType::kInt16, values.data(), values.size(), bytes.data());
#ifndef ADJOIN_WORKER_DATA_ENCODE_CELLS_H_
#define ADJOIN_WORKER_DATA_ENCODE_CELLS_H_

#include <cstdint>

#include "worker/data/cell_type.h"

namespace adjoin {

// Writes `count` cells of SizeOf(type) bytes each, little-endian. Integers are rounded to the nearest and limited to
// the type's range, NaN becomes 0; floating point cells are rounded to the nearest even.
void EncodeCells(CellType type, const double* in, int64_t count, unsigned char* out);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ENCODE_CELLS_H_
