#include "planner/spec/spec_file.h"

#include <errno.h>
#include <string.h>

#include <fstream>
#include <iostream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {

absl::StatusOr<std::string> ReadSpecFile(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(kMaxSpecBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (path != "-" && in.gcount() == 0 && errno == EISDIR)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " cannot be read as a file"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is larger than ", kMaxSpecBytes, " bytes, the most a job may have"));
  }
  return text;
}

}  // namespace adjoin
