// What the planner knows of the formats of data files: what a job may ask of each.
//
//   FindFileFormat("npy")->written;    // true: predict.format may be "npy"
//
// worker/data has the formats themselves (array_formats.h), which the planner does not link. A test there compares the
// two lists, and this one with the fields of Field.source.
#ifndef ADJOIN_PLANNER_SPEC_FILE_FORMATS_H_
#define ADJOIN_PLANNER_SPEC_FILE_FORMATS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

struct FileFormat {
  std::string name;         // of the field of Field.source: "npy"
  bool objects = false;     // a file may hold several arrays: File.object chooses one
  bool written = false;     // predict.format may name it
  bool volumes = false;     // a file is one volume, [z, y, x]: one sample
  int64_t most_extent = 0;  // of a dim of a written file; 0: any
};

// In the order of Field.source.
const std::vector<FileFormat>& FileFormats();

// Null where there is none.
const FileFormat* FindFileFormat(absl::string_view name);

// For messages: "idx, npy or hdf5", the formats that `included` accepts, each between `quote`.
std::string FileFormatNames(const std::function<bool(const FileFormat&)>& included, absl::string_view quote = "");

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_FILE_FORMATS_H_
