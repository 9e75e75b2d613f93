// The formats of array files that a program knows.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* format, BuiltinArrayFormats().Of("/data/a.npy", options));
//   format->name;                                             // "npy"
//   ArrayFormats formats = BuiltinArrayFormats();
//   ADJOIN_RETURN_IF_ERROR(formats.Add(PgmFormat()));
//   ArrayFile::Open("/data/scan.pgm", options, formats);
//
// A format of this project is one function in a file of its own and one line in array_formats.cc. Any thread may read.
#ifndef ADJOIN_WORKER_DATA_ARRAY_FORMATS_H_
#define ADJOIN_WORKER_DATA_ARRAY_FORMATS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/array_format.h"

namespace adjoin {

class ArrayFormats {
 public:
  // Errors: kAlreadyExists (the name is taken); kInvalidArgument (no name, a function that every format has is missing,
  // or only one of `create` and `find` is there).
  absl::Status Add(ArrayFormat format);

  // In the order in which they were added.
  const std::vector<ArrayFormat>& all() const { return formats_; }
  // Null where there is none. Valid until the next Add, as are the pointers below.
  const ArrayFormat* Find(absl::string_view name) const;
  // Errors: kInvalidArgument, which lists the known names.
  absl::StatusOr<const ArrayFormat*> Named(absl::string_view name) const;
  // The format that can be written and has this name. Errors: kInvalidArgument, which lists those that can be written.
  absl::StatusOr<const ArrayFormat*> Written(absl::string_view name) const;
  // The format of options.format; where that is empty, the one that the content shows: the first that is sure, else the
  // first that is not. Errors: as Named; as ByteSource; kInvalidArgument (no format knows the file).
  absl::StatusOr<const ArrayFormat*> Of(const std::string& path, const ArrayFileOptions& options) const;
  // For messages: "idx, npy or hdf5" and "IDX, NPY or HDF5"; with `included`, of the formats that it accepts.
  std::string Names(const std::function<bool(const ArrayFormat&)>& included = nullptr) const;
  std::string Titles(const std::function<bool(const ArrayFormat&)>& included = nullptr) const;

 private:
  std::vector<ArrayFormat> formats_;
};

// IDX, NPY, NIfTI-1 and HDF5. A copy may be extended.
const ArrayFormats& BuiltinArrayFormats();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_FORMATS_H_
