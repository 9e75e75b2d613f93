// Checks that libhdf5 may inflate a chunk of an HDF5 data set.
//
//   ADJOIN_ASSIGN_OR_RETURN(const bool known, CheckChunk(lock, data_set.get(), {0, 16}, 16 * 16 * 4));
//
// libhdf5 inflates a chunk in memory without a limit, and does not check that the result has a chunk's size.
#ifndef ADJOIN_WORKER_DATA_HDF5_CHUNK_H_
#define ADJOIN_WORKER_DATA_HDF5_CHUNK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/hdf5_library.h"

namespace adjoin {

// Checks that the chunk whose first cell is `at` inflates to `bytes`, by the filters gzip, shuffle and fletcher32.
// False: gzip is used together with other filters, so this cannot be checked. True also where the stream is corrupt,
// which the library finds. Memory: a fixed buffer and the chunk as it is stored. Errors, without names: kDataLoss.
absl::StatusOr<bool> CheckChunk(const Hdf5Lock& lock, hid_t data_set, const std::vector<hsize_t>& at, int64_t bytes);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HDF5_CHUNK_H_
