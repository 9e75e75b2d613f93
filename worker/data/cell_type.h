// The types that cells of array files have, and their values as numbers.
//
//   std::vector<double> values(3);
//   DecodeCells(CellType::kInt16, /*big_endian=*/true, bytes, 3, values.data());
//
// Any thread.
#ifndef ADJOIN_WORKER_DATA_CELL_TYPE_H_
#define ADJOIN_WORKER_DATA_CELL_TYPE_H_

#include <cstdint>
#include <string>

namespace adjoin {

enum class CellType { kUInt8, kInt8, kUInt16, kInt16, kUInt32, kInt32, kUInt64, kInt64, kFloat16, kFloat32, kFloat64 };

int64_t SizeOf(CellType type);        // bytes of a cell
std::string ToString(CellType type);  // NumPy's names: "uint8", "float16", ...

// Reads `count` cells of SizeOf(type) bytes each as doubles. They are exact, but for 64-bit integers beyond 2^53.
void DecodeCells(CellType type, bool big_endian, const unsigned char* in, int64_t count, double* out);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_CELL_TYPE_H_
