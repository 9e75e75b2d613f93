#include "planner/spec/file_formats.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adjoin {

const std::vector<FileFormat>& FileFormats() {
  static const auto& formats = *new std::vector<FileFormat>{
      {.name = "idx"},
      {.name = "npy", .written = true},
      {.name = "hdf5", .objects = true, .written = true},
      {.name = "nifti", .written = true, .volumes = true, .most_extent = 32767},
  };
  return formats;
}

const FileFormat* FindFileFormat(absl::string_view name) {
  const auto found = std::find_if(FileFormats().begin(), FileFormats().end(),
                                  [&](const FileFormat& format) { return format.name == name; });
  return found == FileFormats().end() ? nullptr : &*found;
}

std::string FileFormatNames(const std::function<bool(const FileFormat&)>& included, absl::string_view quote) {
  std::vector<std::string> names;
  for (const FileFormat& format : FileFormats()) {
    if (included(format)) names.push_back(absl::StrCat(quote, format.name, quote));
  }
  if (names.size() < 2) return absl::StrJoin(names, "");
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "), " or ", names.back());
}

}  // namespace adjoin
