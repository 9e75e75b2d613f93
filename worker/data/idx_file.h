// IDX, the format of the MNIST files: two zero bytes, a type, the number of dims, each extent in 4 bytes, then the
// cells, row-major; all big-endian. Read only.
//
// Source: the format's description on the MNIST page by Y. LeCun, C. Cortes and C. Burges.
#ifndef ADJOIN_WORKER_DATA_IDX_FILE_H_
#define ADJOIN_WORKER_DATA_IDX_FILE_H_

#include "worker/data/array_format.h"

namespace adjoin {

// The format's own codes.
enum class IdxType { kUInt8 = 0x08, kInt8 = 0x09, kInt16 = 0x0b, kInt32 = 0x0c, kFloat32 = 0x0d, kFloat64 = 0x0e };

// Files are refused with kInvalidArgument (not IDX, an unknown type, no dims) and kDataLoss (empty, truncated, more
// cells than any file has).
ArrayFormat IdxFormat();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_IDX_FILE_H_
