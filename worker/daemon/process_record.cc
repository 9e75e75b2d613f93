#include "worker/daemon/process_record.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "worker/daemon/proc_stat.h"

namespace adjoin {
namespace {

// New at each start of the machine.
std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

// Kills the process and what else is in its group. Returns when it is dead.
absl::Status KillOne(pid_t pid, uint64_t start_time, Deadline deadline) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (fd.get() < 0) return absl::OkStatus();
  // The descriptor is that of the process that has the pid now, which may be another one than was recorded.
  std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat.has_value() || stat->start_time != start_time || stat->Dead()) return absl::OkStatus();
  LogWarning(absl::StrCat("killing process ", pid, ", which an earlier daemon has left"));
  kill(-pid, SIGKILL);
  syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0);
  pollfd dead = {fd.get(), POLLIN, 0};
  while (!deadline.Expired()) {
    if (poll(&dead, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining()))) > 0) return absl::OkStatus();
  }
  return absl::DeadlineExceededError(absl::StrCat("process ", pid, ", a rank of an earlier daemon, does not die"));
}

}  // namespace

absl::Status ProcessRecord::KillLeftovers(Deadline deadline) {
  std::ifstream file(path_);
  if (!file) {
    return errno == ENOENT ? Write()
                           : absl::UnavailableError(absl::StrCat(path_, " cannot be read: ", strerror(errno)));
  }
  std::string boot_id;
  if (file >> boot_id && boot_id == BootId()) {
    pid_t pid = 0;
    uint64_t start_time = 0;
    while (file >> pid >> start_time) {
      if (pid <= 1) return absl::DataLossError(absl::StrCat(path_, " is no record of processes"));
      ADJOIN_RETURN_IF_ERROR(KillOne(pid, start_time, deadline));
    }
    if (!file.eof()) return absl::DataLossError(absl::StrCat(path_, " is no record of processes"));
  }
  start_times_.clear();
  return Write();
}

absl::Status ProcessRecord::Add(pid_t pid) {
  std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat.has_value()) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  start_times_[pid] = stat->start_time;
  return Write();
}

void ProcessRecord::Remove(pid_t pid) {
  start_times_.erase(pid);
  // An entry too many does no harm: no process has its pid and start time any more.
  if (absl::Status status = Write(); !status.ok()) LogWarning(std::string(status.message()));
}

absl::Status ProcessRecord::Write() const {
  std::string text = BootId() + "\n";
  for (const auto& [pid, start_time] : start_times_) absl::StrAppend(&text, pid, " ", start_time, "\n");
  return WriteFileAtomically(path_, text);
}

}  // namespace adjoin
