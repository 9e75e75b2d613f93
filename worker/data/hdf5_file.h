// HDF5 files, by libhdf5: each array is a data set.
//
// A contiguous data set is read by its offset in the file, as other formats are; a chunked one by the library, whole
// chunks at a time. Refused by name: cells that are no numbers (booleans and other enumerations are read as their
// codes), cells in other files (external, virtual, links to other files), filters that the library does not have.
#ifndef ADJOIN_WORKER_DATA_HDF5_FILE_H_
#define ADJOIN_WORKER_DATA_HDF5_FILE_H_

#include "worker/data/array_format.h"

namespace adjoin {

// Files are refused with kInvalidArgument and kDataLoss, as by ArrayFile::Open. What is written is one contiguous data
// set whose cells are allocated and never filled; kInvalidArgument where ArrayWriterOptions::object is no name.
ArrayFormat Hdf5Format();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HDF5_FILE_H_
