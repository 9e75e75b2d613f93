// Cell types as libhdf5 has them. Called while the thread has an Hdf5Lock.
//
//   bool big_endian;
//   ADJOIN_ASSIGN_OR_RETURN(CellType type, CellTypeOfHdf5(hdf5_type.get(), &big_endian));
#ifndef ADJOIN_WORKER_DATA_HDF5_TYPE_H_
#define ADJOIN_WORKER_DATA_HDF5_TYPE_H_

#include "absl/status/statusor.h"
#include "worker/data/cell_type.h"
#include "worker/data/hdf5_library.h"

namespace adjoin {

// Returns the type; an enumeration has the type of its integers. Errors: kInvalidArgument, without a file's name.
absl::StatusOr<CellType> CellTypeOfHdf5(hid_t type, bool* big_endian);

// Returns the little-endian type.
Hdf5Id Hdf5TypeOf(CellType type);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HDF5_TYPE_H_
