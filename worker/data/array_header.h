// The header of an array file: the array's shape, type and how it is stored.
//
//   ArrayHeader header = ...;      // ReadArrayHeader, array_file.h
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
  std::string format;                // the name of its ArrayFormat: "npy"
  CellType type = CellType::kUInt8;  // the cells in the file; NumPy's booleans are uint8, h5py's int8
  // Row-major as they are read: the last dim's neighbours are neighbours. An array in Fortran order has NumPy's shape.
  // NIfTI's dims are in the order of the memory: [z, y, x], or [t, z, y, x]. May be empty (a scalar).
  std::vector<int64_t> shape;
  // ArrayFile::Read returns slope * cell + intercept (NIfTI's scl_slope and scl_inter; else 1 and 0).
  double slope = 1;
  double intercept = 0;
  // How cells are ordered in the file: a reader of pieces cuts the array so that a piece is stored together.
  bool fortran = false;        // the first dim's neighbours are neighbours: cut the last dim; else cut the first
  std::vector<int64_t> chunk;  // the chunks' extents of an HDF5 data set that has any; each chunk is read whole
  // The first 348 bytes of a NIfTI file, turned to little-endian; ArrayWriter keeps them.
  std::string nifti;

  int64_t Cells() const;         // how many cells the whole array has
  std::string ToString() const;  // "181x217x181 uint8"
};

// An array whose cells follow each other in a file.
struct StoredArray {
  ArrayHeader header;
  int64_t offset = 0;  // the first cell's byte in the file
  bool big_endian = false;

  int64_t DataBytes() const { return header.Cells() * SizeOf(header.type); }
  int64_t EndOfData() const { return offset + DataBytes(); }
};

// Checks that the array's number of bytes fits in 63 bits, as every function above needs. Errors: kDataLoss with
// `name`.
absl::Status CheckArraySize(const std::string& name, const ArrayHeader& header, int64_t offset);

// Checks that `box` is within the array. Errors: kInvalidArgument with `name`.
absl::Status CheckBox(const std::string& name, const ArrayHeader& header, const Box& box);

// Returns the error of a file that has `found` bytes of cells, while its header needs another number.
absl::Status ArrayLengthError(const std::string& name, const StoredArray& array, int64_t found);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_HEADER_H_
