// A format of array files: how its files are recognised, read, checked and written.
//
//   ArrayFormat PgmFormat() {
//     return HeaderThenCells({.name = "pgm", .title = "PGM", .extension = ".pgm", .sniff = LooksLikePgm},
//     ReadPgmHeader);
//   }
//   ArrayFormats formats = BuiltinArrayFormats();             // array_formats.h
//   ADJOIN_RETURN_IF_ERROR(formats.Add(PgmFormat()));
//
// A format with one header and then all cells needs only `sniff` and a function that reads the header
// (header_then_cells.h makes the rest). docs/extending/data-format.md goes through it step by step.
// All functions are called from any thread. Paths are opened as they are; messages use ArrayFileOptions::name.
#ifndef ADJOIN_WORKER_DATA_ARRAY_FORMAT_H_
#define ADJOIN_WORKER_DATA_ARRAY_FORMAT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/array_file.h"
#include "worker/data/array_header.h"
#include "worker/data/array_writer.h"
#include "worker/data/cell_type.h"

namespace adjoin {

// All that a format is told of a file to recognise it.
struct FileStart {
  absl::string_view bytes;  // the first 8, inflated where the file is gzip; fewer where it has fewer
  bool compressed = false;  // the file is gzip
  std::string path;
};

// How sure a format is that a file belongs to it.
enum class Likeness {
  kNo,
  kMaybe,  // the magic is weak: the file is of this format only where no other is sure
  kYes
};

// One of the arrays in a file that may have several.
struct ArrayObject {
  std::string name;      // "group/images"
  ArrayHeader header;    // where it can be read
  absl::Status problem;  // why it cannot be read; else OK
};

struct ArrayFormat {
  // The name in jobs (a field of Field.source), in --format and in ArrayHeader::format: "npy".
  std::string name = {};
  // The name in messages: "NPY".
  std::string title = {};
  // The ending of the names of files that are written: ".npy".
  std::string extension = {};
  // The names of the dims where a file is one volume and so one sample, the last dim fastest: {"t", "z", "y", "x"}; a
  // file with fewer dims has the last ones. Empty: the first dim of a file may count samples.
  std::vector<std::string> volume_dims = {};
  // Ends a message about a shape that does not fit: how the format's other programs name the dims. May be empty.
  std::string shape_hint = {};

  // Decides, by as little as possible, whether the file looks like one of this format.
  std::function<Likeness(const FileStart& start)> sniff = nullptr;
  // Reads shape and type and compares the sizes with the file's, as ReadArrayHeader. The header's `format` is `name`.
  std::function<absl::StatusOr<ArrayHeader>(const std::string& path, const ArrayFileOptions& options)> header = nullptr;
  // Opens the file for reading boxes, as ArrayFile::Open.
  std::function<absl::StatusOr<std::unique_ptr<ArrayFile>>(const std::string& path, const ArrayFileOptions& options)>
      open = nullptr;
  // Reads the whole file as far as `limits` go (null: to its end) and finds what is corrupt, as CheckArrayFile.
  std::function<absl::StatusOr<ArrayHeader>(const std::string& path, const ArrayFileOptions& options,
                                            CheckLimits* limits)>
      check = nullptr;

  // Lists the arrays of a file that may hold several, in the order of their names. ArrayFileOptions::object chooses
  // one. Null: a file holds one array.
  std::function<absl::StatusOr<std::vector<ArrayObject>>(const std::string& path, const std::string& name)> list =
      nullptr;

  // Fills the empty file `path`, which is open for writing as `fd`, up to its first cell, and returns where the cells
  // are stored: one after the other, row-major and little-endian. Errors: kInvalidArgument (a type, shape or option
  // that the format does not have), kResourceExhausted, kUnavailable. Null, as is `find`: files cannot be written.
  std::function<absl::StatusOr<StoredArray>(const std::string& path, int fd, CellType type,
                                            const std::vector<int64_t>& shape, const ArrayWriterOptions& options)>
      create = nullptr;
  // Returns where the cells are stored in a file that `create` has made on another rank.
  std::function<absl::StatusOr<StoredArray>(const std::string& path, const ArrayWriterOptions& options)> find = nullptr;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_ARRAY_FORMAT_H_
