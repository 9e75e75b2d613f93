// NIfTI-1 files (.nii): volumes with their location in space. The shape is [z, y, x] or [t, z, y, x], the order of the
// memory.
//
// Source: nifti1.h of R. W. Cox (NIMH), "Neuroimaging Informatics Technology Initiative, NIfTI-1".
#ifndef ADJOIN_WORKER_DATA_NIFTI_FILE_H_
#define ADJOIN_WORKER_DATA_NIFTI_FILE_H_

#include "worker/data/array_format.h"

namespace adjoin {

// Files are refused with kInvalidArgument (no NIfTI file; NIfTI-2, a pair of .hdr and .img, ANALYZE, or cells that are
// no numbers, each by name) and kDataLoss (truncated, or a header that cannot be right). Not written, with
// kInvalidArgument: float16, more than 7 dims, extents that are not in 1 to 32767.
ArrayFormat NiftiFormat();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_NIFTI_FILE_H_
