#include "worker/daemon/proc_stat.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adjoin {
namespace {

// Counted from the state, which follows the name; proc(5) calls it field 22 of the line, the state field 3.
constexpr size_t kParent = 1;
constexpr size_t kStartTime = 19;

}  // namespace

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text, '\0');      // throws nothing where the process ends between opening and reading
  size_t name_end = text.rfind(") ");  // the name may hold anything, also parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::vector<std::string> fields = absl::StrSplit(text.substr(name_end + 2), ' ');
  ProcStat stat;
  if (fields.size() <= kStartTime || fields[0].size() != 1) return std::nullopt;
  if (!absl::SimpleAtoi(fields[kStartTime], &stat.start_time)) return std::nullopt;
  if (!absl::SimpleAtoi(fields[kParent], &stat.parent)) return std::nullopt;
  stat.state = fields[0][0];
  return stat;
}

}  // namespace adjoin
