// The header of NIfTI-1 files (.nii): volumes with their place in space.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open("ch2.nii.gz"));
//   ADJOIN_ASSIGN_OR_RETURN(StoredArray array, ReadNiftiHeader(*source));    // array.header.shape: z, y, x
//
// Source: nifti1.h of R. W. Cox (NIMH), "Neuroimaging Informatics Technology Initiative, NIfTI-1". Any thread.
#ifndef ADJOIN_WORKER_DATA_NIFTI_FILE_H_
#define ADJOIN_WORKER_DATA_NIFTI_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/array_header.h"
#include "worker/data/byte_source.h"

namespace adjoin {

// `source` is at its beginning. The sizes are not yet compared with the file.
// Errors, with the file's name: kInvalidArgument (no NIfTI file; NIfTI-2, a pair of .hdr and .img, ANALYZE, or cells that
// are no numbers, each by name); kDataLoss (ends within its header, or a header that cannot be).
absl::StatusOr<StoredArray> ReadNiftiHeader(ByteSource& source);

// All that comes before the first cell of a little-endian file. `kept`: ArrayHeader::nifti of another file, or empty.
// Errors: kInvalidArgument (float16, more than 7 dims, an extent that is not in 1 to 32767).
absl::StatusOr<std::string> NiftiHeaderBytes(CellType type, const std::vector<int64_t>& shape, const std::string& kept);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_NIFTI_FILE_H_
