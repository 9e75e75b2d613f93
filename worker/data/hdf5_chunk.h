// Whether the library can be trusted with a chunk of an HDF5 data set.
//
//   ADJOIN_ASSIGN_OR_RETURN(const bool known, CheckChunk(lock, data_set.get(), {0, 16}, 16 * 16 * 4));
//
// libhdf5 inflates a chunk to whatever it inflates to, in memory, and takes for granted that it is a chunk's size.
#ifndef ADJOIN_WORKER_DATA_HDF5_CHUNK_H_
#define ADJOIN_WORKER_DATA_HDF5_CHUNK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/hdf5_library.h"

namespace adjoin {

// Of the chunk whose first cell is `at`: that it inflates to `bytes`, by filters of gzip, shuffle and fletcher32. False: gzip
// is used with others, and there is no telling. True also where it is corrupt, which the library finds. Needs a fixed memory and that of
// the chunk as it is stored. Errors, without names: kDataLoss.
absl::StatusOr<bool> CheckChunk(const Hdf5Lock& lock, hid_t data_set, const std::vector<hsize_t>& at, int64_t bytes);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HDF5_CHUNK_H_
