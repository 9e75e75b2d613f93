// What the header of an array file says.
//
//   ArrayHeader header = ...;      // of worker/data/array_file.h
//   header.ToString();             // "181x217x181 uint8"
//
// Any thread.
#ifndef ADJOIN_WORKER_DATA_ARRAY_HEADER_H_
#define ADJOIN_WORKER_DATA_ARRAY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "primitives/geometry/box.h"
#include "worker/data/cell_type.h"

namespace adjoin {

struct ArrayHeader {
  std::string format;                // "idx", "npy", "hdf5", "nifti"
  CellType type = CellType::kUInt8;  // of the cells in the file; NumPy's booleans are uint8, h5py's int8
  // Row-major as they are read: the last dim's neighbours are neighbours. An array in Fortran order has NumPy's shape.
  // NIfTI's dims are in the order of the memory: [z, y, x], or [t, z, y, x]. May be empty (a scalar).
  std::vector<int64_t> shape;
  // What is read is slope * cell + intercept (NIfTI's scl_slope and scl_inter; else 1 and 0).
  double slope = 1;
  double intercept = 0;
  // Which boxes of it lie together in the file: what to cut when it is read in pieces.
  bool fortran = false;        // the first dim's neighbours are neighbours, so the last dims; else the first ones
  std::vector<int64_t> chunk;  // of an HDF5 data set in chunks: their extents. Each is read as a whole
  // Of a NIfTI file: its first 348 bytes, little-endian whatever the file has; ArrayWriter keeps them.
  std::string nifti;

  int64_t Cells() const;         // of the whole array
  std::string ToString() const;  // "181x217x181 uint8"
};

// An array whose cells follow each other in a file.
struct StoredArray {
  ArrayHeader header;
  int64_t offset = 0;         // of the first cell
  bool big_endian = false;

  int64_t DataBytes() const { return header.Cells() * SizeOf(header.type); }
  int64_t EndOfData() const { return offset + DataBytes(); }
};

// That `shape` has a number of bytes, which every function above needs. Errors: kDataLoss, which names `name`.
absl::Status CheckArraySize(const std::string& name, const ArrayHeader& header, int64_t offset);

// That `box` lies within the array. Errors: kInvalidArgument, which names `name`.
absl::Status CheckBox(const std::string& name, const ArrayHeader& header, const Box& box);

// The error of a file with `found` bytes of cells where its header says otherwise.
absl::Status ArrayLengthError(const std::string& name, const StoredArray& array, int64_t found);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_HEADER_H_
