// Data sets of HDF5 files, by libhdf5.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArrayFile> file, OpenHdf5("/data/a.h5", "a.h5", "images"));
//
// A contiguous data set is read at its place in the file, as other formats are; a chunked one by the library, whole
// chunks at a time. Refused by name: cells that are no numbers (booleans and other enumerations are read as their codes),
// cells in other files (external, virtual, links to other files), filters that the library does not have. Any thread; one
// thread per ArrayFile.
#ifndef ADJOIN_WORKER_DATA_HDF5_FILE_H_
#define ADJOIN_WORKER_DATA_HDF5_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/array_file.h"
#include "worker/data/array_header.h"

namespace adjoin {

// Whether it begins as HDF5 files do, or does so after a user's block.
bool IsHdf5(const std::string& path);

// `name`: as of ArrayFileOptions. `object`: the data set; empty: the only one there is. Errors: as ArrayFile::Open.
absl::StatusOr<std::unique_ptr<ArrayFile>> OpenHdf5(const std::string& path, const std::string& name,
                                                    const std::string& object);

// Also has the library read every chunk, as far as `limits` go (none where it is null).
absl::StatusOr<ArrayHeader> CheckHdf5(const std::string& path, const std::string& name, const std::string& object,
                                      CheckLimits* limits = nullptr);

struct Hdf5Object {
  std::string name;      // "group/images"
  ArrayHeader header;    // of one that can be read
  absl::Status problem;  // why another one cannot
};
// Every data set, in the order of the names; not those behind links to other files.
absl::StatusOr<std::vector<Hdf5Object>> ListHdf5(const std::string& path, const std::string& name);

// Makes the file with one contiguous data set whose place is allocated and never filled; the array says where that is.
// Errors: kInvalidArgument (`object` is no name), kUnavailable.
absl::StatusOr<StoredArray> CreateHdf5(const std::string& path, const std::string& object, CellType type,
                                       const std::vector<int64_t>& shape);

// Of such a data set. Errors: as ArrayFile::Open; kInvalidArgument where its cells do not follow each other in the file.
absl::StatusOr<StoredArray> ReadHdf5Place(const std::string& path, const std::string& object);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HDF5_FILE_H_
