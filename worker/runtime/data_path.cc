#include "worker/runtime/data_path.h"

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace adjoin {

absl::StatusOr<std::string> PathBelow(const std::string& root, const std::string& relative) {
  if (root.empty()) return absl::InvalidArgumentError(absl::StrCat("no root folder is set for \"", relative, "\""));
  const std::filesystem::path path(relative);
  bool below = !relative.empty() && !path.is_absolute() && relative.find('\0') == std::string::npos;
  for (const std::filesystem::path& part : path) below = below && part != "..";
  if (!below) {
    return absl::InvalidArgumentError(
        absl::StrCat("path \"", relative, "\": right would be one relative to ", root, ", without \"..\""));
  }
  return (std::filesystem::path(root) / path).string();
}

}  // namespace adjoin
