// An array in a file, of which any box can be read: IDX, NPY and NIfTI-1, plain or gzip, and data sets of HDF5.
//
//   ArrayFileOptions options;
//   options.cache_dir = "/var/cache/adjoin";
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArrayFile> file, ArrayFile::Open("/data/ch2.nii.gz", options));
//   file->header().shape;                                      // {181, 217, 181}: z, y, x
//   const Box slab({{0, 90}, {0, 217}, {0, 181}});
//   std::vector<double> cells(slab.Volume());
//   ADJOIN_RETURN_IF_ERROR(file->Read(slab, cells.data()));
//
// Of a plain file only the cells of the box are read, of a chunked HDF5 data set the chunks that meet it. A gzip file has
// no middle to seek to: it is inflated once per node into a cache (inflate_cache.h).
// What a header claims is compared with the file's real size before anything is allocated or read by it.
//
// Errors name the file, what is wrong and what would be right: kNotFound, kPermissionDenied, kUnavailable (cannot be
// read), kInvalidArgument (not a regular file, not of the format, a type or kind of it that is not supported), kDataLoss
// (truncated, trailing bytes, corrupt), kResourceExhausted (the cache's disk is full), kDeadlineExceeded (another rank
// inflates the file for too long). One thread per ArrayFile; different ones from any threads.
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

struct ArrayFileOptions {
  std::string format;     // "idx", "npy", "hdf5", "nifti"; empty: what the content shows
  std::string object;     // of an HDF5 file: the data set, "/images" or "group/images"
  std::string name;       // what messages call the file; empty: its path
  std::string cache_dir;  // of inflated copies, made where it is missing; empty: a temporary file that nobody else sees
  int64_t cache_bytes = 0;                           // limit of that folder; 0: 80 % of its disk
  absl::Duration inflate_timeout = absl::Hours(1);   // of waiting while another process inflates the same file
  const std::atomic<bool>* stop = nullptr;           // true: Open ends its inflating and waiting (kCancelled); may be null
};

class ArrayFile {
 public:
  static absl::StatusOr<std::unique_ptr<ArrayFile>> Open(const std::string& path, const ArrayFileOptions& options);
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  virtual const ArrayHeader& header() const = 0;
  // `box` lies within header().shape; `out` has room for box.Volume() values, row-major over the box, slope and intercept
  // applied.
  // Errors: kInvalidArgument (the box lies elsewhere); kDataLoss (the file became shorter, a corrupt chunk); kUnavailable.
  virtual absl::Status Read(const Box& box, double* out) = 0;
  // By all calls of Read so far, from the file or its inflated copy; of chunked data sets the sizes of the chunks, as
  // stored, that each call met.
  virtual int64_t bytes_read() const = 0;

 protected:
  ArrayFile() = default;
};

// Only the header, of which the sizes were compared with the file's, but for a gzip file: nothing is inflated but its
// beginning.
absl::StatusOr<ArrayHeader> ReadArrayHeader(const std::string& path, const ArrayFileOptions& options);

// What may be spent on checks; several files may share it.
struct CheckLimits {
  int64_t bytes = INT64_MAX;      // inflated ones, which each check takes off: of the content of gzip files, of HDF5's chunks
  std::function<bool()> enough;   // asked between pieces of a file; true: no more than headers from now on; may be empty
};

// Also that the whole file is sound: a gzip stream's end, length and checksum, every chunk of an HDF5 data set. A gzip file
// that inflates to more than the limits have left, and what of a file would go beyond them, is not inflated, and is no error.
// Memory: a fixed buffer and, of HDF5, a chunk; no cache.
absl::StatusOr<ArrayHeader> CheckArrayFile(const std::string& path, const ArrayFileOptions& options,
                                           CheckLimits* limits = nullptr);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_FILE_H_
