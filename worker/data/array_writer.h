// An array file that many processes write together, each its own boxes: NPY, NIfTI-1 or one data set of HDF5.
//
//   // one rank, then, once it is there, the others:
//   ADJOIN_ASSIGN_OR_RETURN(auto writer, ArrayWriter::Create("out/seg.npy", "npy", CellType::kFloat32, {181, 217,
//   181})); ADJOIN_ASSIGN_OR_RETURN(auto writer, ArrayWriter::Open("out/seg.npy", "npy", CellType::kFloat32, {181, 217,
//   181}));
//   // every rank, its boxes, in any order:
//   ADJOIN_RETURN_IF_ERROR(writer->Write(Box({{0, 90}, {0, 217}, {0, 181}}), cells));
//   ADJOIN_RETURN_IF_ERROR(writer->Finish());
//   // the rank that created it, once all have finished:
//   ADJOIN_RETURN_IF_ERROR(writer->Publish());
//
// The file has its full size from the beginning, under the name PATH.tmp, and cells that no rank writes are 0. Publish
// gives the file its own name; a creator that is destroyed before removes it. The caller makes ranks wait for each
// other.
//
// Errors name the file: kInvalidArgument (a format, type, shape or box that does not fit), kNotFound,
// kPermissionDenied, kResourceExhausted (the disk is full), kUnavailable. One thread.
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

class ArrayFormats;
const ArrayFormats& BuiltinArrayFormats();  // array_formats.h

struct ArrayWriterOptions {
  // NIfTI: ArrayHeader::nifti of an input, whose location in space (qform, sform), spacing and units are kept; empty: 1
  // mm cells at the origin. Extents, type and scaling become those of the written file; the spacing of further dims is
  // 1.
  std::string nifti = {};
  std::string object = "data";  // HDF5: the data set's name, without "/"
};

class ArrayWriter {
 public:
  // Makes PATH.tmp. `format` is the name of an ArrayFormat that can be written: "npy", "nifti", "hdf5". `shape` is
  // row-major, NIfTI's [z, y, x] or [t, z, y, x] (at most 7 dims of 1 to 32767). A PATH.tmp that is there is replaced.
  static absl::StatusOr<std::unique_ptr<ArrayWriter>> Create(const std::string& path, const std::string& format,
                                                             CellType type, const std::vector<int64_t>& shape,
                                                             const ArrayWriterOptions& options = {},
                                                             const ArrayFormats& formats = BuiltinArrayFormats());
  // Opens the PATH.tmp that another rank has created, and checks that its arguments were the same.
  static absl::StatusOr<std::unique_ptr<ArrayWriter>> Open(const std::string& path, const std::string& format,
                                                           CellType type, const std::vector<int64_t>& shape,
                                                           const ArrayWriterOptions& options = {},
                                                           const ArrayFormats& formats = BuiltinArrayFormats());
  ~ArrayWriter();
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;

  // Writes `cells`: box.Volume() of the type, row-major, in the machine's form (float16: its 16 bits).
  absl::Status Write(const Box& box, const void* cells);
  // Waits until what this rank wrote is on the disk.
  absl::Status Finish();
  // Gives the file its name. On the rank that created it, after all have finished.
  absl::Status Publish();

 private:
  explicit ArrayWriter(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {}

  const std::string path_;
  const std::string temporary_;
  StoredArray array_;
  int fd_ = -1;
  bool creator_ = false;  // and so removes temporary_
  bool finished_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_WRITER_H_
