// An array file that many processes write together, each its own boxes: NPY, NIfTI-1 or one data set of HDF5.
//
//   // one rank, then, once it is there, the others:
//   ADJOIN_ASSIGN_OR_RETURN(auto writer, ArrayWriter::Create("out/seg.npy", "npy", CellType::kFloat32, {181, 217, 181}));
//   ADJOIN_ASSIGN_OR_RETURN(auto writer, ArrayWriter::Open("out/seg.npy", "npy", CellType::kFloat32, {181, 217, 181}));
//   // every rank, its boxes, in any order:
//   ADJOIN_RETURN_IF_ERROR(writer->Write(Box({{0, 90}, {0, 217}, {0, 181}}), cells));
//   ADJOIN_RETURN_IF_ERROR(writer->Finish());
//   // the rank that created it, once all have finished:
//   ADJOIN_RETURN_IF_ERROR(writer->Publish());
//
// The file has its full size from the beginning, under the name PATH.tmp, and cells that nobody writes are 0. It gets its
// own name by Publish; the creator that goes before removes it. Where every rank waits for which is for the caller.
//
// Errors name the file: kInvalidArgument (a format, type, shape or box that does not fit), kNotFound, kPermissionDenied,
// kResourceExhausted (the disk is full), kUnavailable. One thread.
#ifndef ADJOIN_WORKER_DATA_ARRAY_WRITER_H_
#define ADJOIN_WORKER_DATA_ARRAY_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "worker/data/array_header.h"
#include "worker/data/cell_type.h"

namespace adjoin {

struct ArrayWriterOptions {
  // NIfTI: ArrayHeader::nifti of an input, whose place in space (qform, sform), spacing and units are kept; empty: 1 mm
  // cells at the origin. Its extents, type and scaling become those of what is written; spacing of dims that it has not is 1.
  std::string nifti;
  std::string object = "data";  // HDF5: the data set's name, without "/"
};

class ArrayWriter {
 public:
  // `format`: "npy", "nifti", "hdf5". `shape` is row-major, NIfTI's [z, y, x] or [t, z, y, x] (at most 7 dims, each at
  // least 1 and at most 32767). A PATH.tmp that is there is replaced.
  static absl::StatusOr<std::unique_ptr<ArrayWriter>> Create(const std::string& path, const std::string& format,
                                                             CellType type, const std::vector<int64_t>& shape,
                                                             const ArrayWriterOptions& options = {});
  // The PATH.tmp that another rank has created with the same arguments, which is checked.
  static absl::StatusOr<std::unique_ptr<ArrayWriter>> Open(const std::string& path, const std::string& format,
                                                           CellType type, const std::vector<int64_t>& shape,
                                                           const ArrayWriterOptions& options = {});
  ~ArrayWriter();
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;

  // `cells`: box.Volume() of the type, row-major, as the machine has them (float16: its 16 bits; see EncodeCells).
  absl::Status Write(const Box& box, const void* cells);
  // What this rank wrote is on the disk.
  absl::Status Finish();
  // On the rank that created the file, after all have finished.
  absl::Status Publish();

 private:
  explicit ArrayWriter(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {}

  const std::string path_;
  const std::string temporary_;
  StoredArray array_;
  int fd_ = -1;
  bool creator_ = false;    // and so removes temporary_
  bool finished_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_WRITER_H_
