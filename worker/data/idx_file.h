// The header of an IDX file, the format of the MNIST files.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open("train-images.idx.gz"));
//   ADJOIN_ASSIGN_OR_RETURN(StoredArray array, ReadIdxHeader(*source));
//   array.header.ToString();   // "10000x28x28 uint8"
//
// The format: two zero bytes, a type, the number of dims, each extent in 4 bytes, the cells row-major; big-endian.
// Source: the format's description on the MNIST page by Y. LeCun, C. Cortes and C. Burges. Any thread.
#ifndef ADJOIN_WORKER_DATA_IDX_FILE_H_
#define ADJOIN_WORKER_DATA_IDX_FILE_H_

#include "absl/status/statusor.h"
#include "worker/data/array_header.h"
#include "worker/data/byte_source.h"

namespace adjoin {

// The format's own codes.
enum class IdxType { kUInt8 = 0x08, kInt8 = 0x09, kInt16 = 0x0b, kInt32 = 0x0c, kFloat32 = 0x0d, kFloat64 = 0x0e };

// `source` at its beginning is then at the first cell. The sizes are not yet compared with the file.
// Errors, with the file's name: kInvalidArgument (not IDX, an unknown type, no dims); kDataLoss (empty, ends within its
// header, more cells than any file has); kUnavailable.
absl::StatusOr<StoredArray> ReadIdxHeader(ByteSource& source);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_IDX_FILE_H_
