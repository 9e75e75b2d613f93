#include "worker/daemon/mount_points.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_split.h"

namespace adjoin {
namespace {

constexpr size_t kMountPoint = 4;  // the field of a line

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// The kernel writes blanks, tabs, line ends and backslashes as \ooo.
std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escaped =
        text[i] == '\\' && i + 3 < text.size() && IsOctal(text[i + 1]) && IsOctal(text[i + 2]) && IsOctal(text[i + 3]);
    if (!escaped) {
      plain.push_back(text[i]);
      continue;
    }
    plain.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
    i += 3;
  }
  return plain;
}

}  // namespace

MountPoints MountPoints::Read() {
  std::ifstream file("/proc/self/mountinfo", std::ios::binary);
  return MountPoints(std::string(std::istreambuf_iterator<char>(file), {}));
}

MountPoints::MountPoints(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() > kMountPoint && !fields[kMountPoint].empty()) folders_.insert(Unescape(fields[kMountPoint]));
  }
}

std::string MountPoints::Of(const std::string& path) const {
  for (std::filesystem::path folder = std::filesystem::path(path).lexically_normal();; folder = folder.parent_path()) {
    if (folders_.count(folder.string()) > 0) return folder.string();
    if (folder == folder.parent_path()) return "/";
  }
}

std::string MountPoints::OfBelow(const std::vector<std::string>& roots, const std::string& path) const {
  if (path.empty()) return "";
  std::string mount_point = Of(path);
  for (const std::string& root : roots) {
    if (Of(root) == mount_point && AnyBelow(root)) return "";
  }
  return mount_point;
}

bool MountPoints::AnyBelow(const std::string& folder) const {
  const std::string begin = folder == "/" ? folder : folder + "/";
  const auto first = folders_.upper_bound(begin);
  return first != folders_.end() && first->compare(0, begin.size(), begin) == 0;
}

}  // namespace adjoin
