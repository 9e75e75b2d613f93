// An array in a file: any box of it can be read. Built-in formats are IDX, NPY and NIfTI-1, plain or gzip, and data
// sets of HDF5; others can be added (array_formats.h).
//
//   ArrayFileOptions options;
//   options.cache_dir = "/var/cache/adjoin";
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArrayFile> file, ArrayFile::Open("/data/ch2.nii.gz", options));
//   file->header().shape;                                      // {181, 217, 181}: z, y, x
//   const Box slab({{0, 90}, {0, 217}, {0, 181}});
//   std::vector<double> cells(slab.Volume());
//   ADJOIN_RETURN_IF_ERROR(file->Read(slab, cells.data()));
//
// Read takes only the cells of the box from a plain file, and the chunks that meet the box from a chunked HDF5 data
// set. A gzip file has no middle to seek to: it is inflated once per node into a cache (inflate_cache.h). Sizes in a
// header are compared with the file's real size before anything is allocated or read by them.
//
// Errors name the file, what is wrong and what would be right: kNotFound, kPermissionDenied, kUnavailable (cannot be
// read), kInvalidArgument (not a regular file, not of the format, a type or kind of it that is not supported),
// kDataLoss (truncated, trailing bytes, corrupt), kResourceExhausted (the cache's disk is full), kDeadlineExceeded
// (another rank inflates the file for too long). One thread per ArrayFile; different ones from any threads.
#ifndef ADJOIN_WORKER_DATA_ARRAY_FILE_H_
#define ADJOIN_WORKER_DATA_ARRAY_FILE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/geometry/box.h"
#include "worker/data/array_header.h"

namespace adjoin {

class ArrayFormats;
const ArrayFormats& BuiltinArrayFormats();  // array_formats.h

struct ArrayFileOptions {
  std::string format = {};  // an ArrayFormat's name: "npy"; empty: the content shows it
  std::string object = {};  // the data set in an HDF5 file, "/images" or "group/images"
  std::string name = {};    // what messages call the file; empty: its path
  // The folder for inflated copies, made where it is missing; empty: a temporary file that no other process sees.
  std::string cache_dir = {};
  int64_t cache_bytes = 0;                          // limit of that folder; 0: 80 % of its disk
  absl::Duration inflate_timeout = absl::Hours(1);  // how long to wait while another process inflates the same file
  const std::atomic<bool>* stop = nullptr;          // true: Open stops to inflate and to wait (kCancelled); may be null
};

class ArrayFile {
 public:
  static absl::StatusOr<std::unique_ptr<ArrayFile>> Open(const std::string& path, const ArrayFileOptions& options,
                                                         const ArrayFormats& formats = BuiltinArrayFormats());
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  virtual const ArrayHeader& header() const = 0;
  // Reads the cells of `box`, which is within header().shape, to `out`: box.Volume() values, row-major over the box,
  // with slope and intercept applied.
  // Errors: kInvalidArgument (the box is not within the array); kDataLoss (the file became shorter, a corrupt chunk);
  // kUnavailable.
  virtual absl::Status Read(const Box& box, double* out) = 0;
  // What all calls of Read so far have read from the file or its inflated copy. A chunk of a data set counts with its
  // stored size, in each call that met it.
  virtual int64_t bytes_read() const = 0;

 protected:
  ArrayFile() = default;
};

// Reads only the header and compares its sizes with the file's; a gzip file's are not compared, as only its beginning
// is inflated.
absl::StatusOr<ArrayHeader> ReadArrayHeader(const std::string& path, const ArrayFileOptions& options,
                                            const ArrayFormats& formats = BuiltinArrayFormats());

// What may be spent on checks; several files may share it.
struct CheckLimits {
  // How many bytes may be inflated, from gzip files and HDF5's chunks; each check subtracts its own.
  int64_t bytes = INT64_MAX;
  // Called between pieces of a file. True: only headers are read from now on. May be empty.
  std::function<bool()> enough = nullptr;
};

// Also checks that the whole file is sound: a gzip stream's end, length and checksum, every chunk of an HDF5 data set.
// A gzip file that inflates to more than `limits` have left, and chunks beyond them, are not inflated; that is no
// error.
// Memory: a fixed buffer and, for HDF5, a chunk; no cache.
absl::StatusOr<ArrayHeader> CheckArrayFile(const std::string& path, const ArrayFileOptions& options,
                                           CheckLimits* limits = nullptr,
                                           const ArrayFormats& formats = BuiltinArrayFormats());

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_FILE_H_
