// The header of an IDX file, plain or gzip, and whether the whole file is sound. IDX is the format of the MNIST files.
//
//   ADJOIN_ASSIGN_OR_RETURN(IdxHeader header, ProbeIdx("/data/mnist/train-images.idx.gz"));
//   header.shape;              // {10000, 28, 28}; the first extent counts the samples
//   header.ToString();         // "10000x28x28 uint8"
//
// The format: two zero bytes, a type, the number of dims, each extent in 4 bytes, the cells row-major; big-endian.
// Source: the format's description on the MNIST page by Y. LeCun, C. Cortes and C. Burges.
//
// Errors name the file, what is wrong and what would be right: kNotFound, kPermissionDenied, kUnavailable (cannot be
// read), kInvalidArgument (not a regular file, not IDX, an unknown type, no dims), kDataLoss (truncated, trailing
// bytes, a corrupt gzip stream). Any thread.
#ifndef ADJOIN_WORKER_DATA_IDX_FILE_H_
#define ADJOIN_WORKER_DATA_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/array_header.h"
#include "worker/data/byte_source.h"

namespace adjoin {

// The format's own codes.
enum class IdxType { kUInt8 = 0x08, kInt8 = 0x09, kInt16 = 0x0b, kInt32 = 0x0c, kFloat32 = 0x0d, kFloat64 = 0x0e };

int64_t SizeOf(IdxType type);
std::string ToString(IdxType type);  // "uint8", ...

struct IdxHeader {
  IdxType type = IdxType::kUInt8;
  std::vector<int64_t> shape;  // at least one dim

  int64_t bytes() const { return 4 + 4 * static_cast<int64_t>(shape.size()); }  // of the header itself
  int64_t samples() const { return shape[0]; }
  int64_t SampleElements() const;
  int64_t DataBytes() const;
  std::string ToString() const;
};

// Reads the header only. The sizes it states are not yet compared with the file.
absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path);
// The same from a source at its beginning, which is then at the first cell.
absl::StatusOr<IdxHeader> ReadIdxHeader(ByteSource& source);

// As ReadIdxHeader from a source at its beginning, in the form that all array files share.
absl::StatusOr<StoredArray> ReadIdxArray(ByteSource& source);

// Reads the header and checks the rest: that there are exactly as many bytes as it says, and that a gzip stream is
// whole and its checksum right. Memory: a fixed buffer. `name`: as of ByteSource::Open.
absl::StatusOr<IdxHeader> ProbeIdx(const std::string& path, const std::string& name = "");

// The error of a file with `found` data bytes where `header` says otherwise.
absl::Status IdxLengthError(const std::string& path, const IdxHeader& header, int64_t found);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_IDX_FILE_H_
