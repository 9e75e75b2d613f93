#include "worker/daemon/node_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/process_memory.h"

namespace adjoin {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Lowers `least` to the limits of the group at `path` and of those around it. A group that this process cannot see, as
// in a container, has no file.
void Lower(const std::string& root, std::string path, const std::string& file, uint64_t& least) {
  while (true) {
    uint64_t limit = 0;  // of version 2, "max" is no number and limits nothing
    if (absl::SimpleAtoi(ReadText(absl::StrCat(root, path, "/", file)), &limit) && limit > 0) {
      least = least == 0 ? limit : std::min(least, limit);
    }
    const size_t slash = path.find_last_of('/');
    if (path.empty() || slash == std::string::npos) return;
    path.resize(slash);
  }
}

}  // namespace

uint64_t CgroupMemoryLimit(const std::string& proc_cgroup, const std::string& root) {
  uint64_t least = 0;
  for (const auto line : absl::StrSplit(proc_cgroup, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || absl::StrContains(parts[2], "..")) continue;
    const std::string path = parts[2] == "/" ? "" : parts[2];
    if (parts[1].empty()) {
      Lower(root, path, "memory.max", least);
    } else {
      const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
      if (std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) continue;
      Lower(absl::StrCat(root, "/memory"), path, "memory.limit_in_bytes", least);
    }
  }
  return least;
}

uint64_t MemoryForRanks() {
  const auto machine = static_cast<uint64_t>(MachineMemoryNow().total);
  const uint64_t group = CgroupMemoryLimit(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup");
  const uint64_t least = group == 0 || machine == 0 ? std::max(group, machine) : std::min(group, machine);
  return least / 10 * 9;
}

}  // namespace adjoin
