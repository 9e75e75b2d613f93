#include "tests/harness/leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kPoll = absl::Milliseconds(10);

// The command line of a process that lives; "" of one that is gone or a zombie.
std::string CommandLine(const std::string& process) {
  std::string line = ReadFile(process + "/cmdline");
  std::replace(line.begin(), line.end(), '\0', ' ');
  return line;
}

}  // namespace

std::map<pid_t, std::string> ProcessesIn(const std::string& folder) {
  std::map<pid_t, std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || pid == getpid()) continue;
    const std::string line = CommandLine(entry.path());
    if (line.empty()) continue;
    const std::string place = fs::read_symlink(entry.path() / "cwd", ignored).string();
    if (absl::StrContains(line, folder) || absl::StartsWith(place, folder)) found[pid] = line;
  }
  return found;
}

std::map<pid_t, std::string> ProcessesLeft(const std::string& folder, Deadline deadline) {
  std::map<pid_t, std::string> left = ProcessesIn(folder);
  while (!left.empty() && !deadline.Expired()) {
    absl::SleepFor(kPoll);
    left = ProcessesIn(folder);
  }
  return left;
}

std::set<std::string> SharedMemory() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

std::set<std::string> SharedMemoryLeft(const std::set<std::string>& before, Deadline deadline) {
  std::set<std::string> added = SharedMemory();
  for (const std::string& name : before) added.erase(name);
  while (!added.empty() && !deadline.Expired()) {
    absl::SleepFor(kPoll);
    std::set<std::string> now = SharedMemory();
    for (auto it = added.begin(); it != added.end();) it = now.count(*it) > 0 ? std::next(it) : added.erase(it);
  }
  return added;
}

}  // namespace adjoin
