#include "cli/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/errno_status.h"

namespace adjoin {
namespace {

constexpr size_t kLastLines = 20;
constexpr absl::Duration kDies = absl::Seconds(5);  // after SIGKILL

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (absl::StartsWith(*entry, "ADJOIN_COORDINATOR") || absl::StartsWith(*entry, "ADJOIN_WORKER_")) continue;
    // The daemons are no tasks of Slurm's.
    if (absl::StartsWith(*entry, "SLURM_LOCALID=") || absl::StartsWith(*entry, "SLURM_STEP_TASKS_PER_NODE=")) continue;
    kept.push_back(*entry);
  }
  return kept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DaemonProcess>> DaemonProcess::Start(const std::string& name,
                                                                    const std::vector<std::string>& command,
                                                                    const std::string& log_file) {
  if (access(command[0].c_str(), X_OK) != 0) return ErrnoStatus(errno, absl::StrCat(command[0], " cannot be run"));
  std::vector<std::string> argument_texts = command, variable_texts = Environment();
  const std::vector<char*> arguments = Pointers(argument_texts), variables = Pointers(variable_texts);
  const UniqueFd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd log(open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (in.get() < 0 || log.get() < 0) return ErrnoStatus(errno, absl::StrCat(log_file, " cannot be written"));
  const pid_t parent = getpid();
  // Only calls that are safe after a fork of a process with many threads.
  const pid_t pid = _Fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in.get(), 0) < 0 || dup2(log.get(), 1) < 0 || dup2(log.get(), 2) < 0) _exit(127);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  if (pid < 0) return absl::UnavailableError(absl::StrCat("no process for the ", name, ": ", strerror(errno)));
  setpgid(pid, pid);
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int error = errno;
  std::unique_ptr<DaemonProcess> process(new DaemonProcess(name, log_file, pid, std::move(pidfd)));
  if (process->fd() < 0) return absl::UnavailableError(absl::StrCat("no process descriptor: ", strerror(error)));
  return process;
}

DaemonProcess::~DaemonProcess() { Reap(); }

bool DaemonProcess::Ended() const {
  pollfd poll_fd = {pidfd_.get(), POLLIN, 0};
  return poll(&poll_fd, 1, 0) > 0;
}

void DaemonProcess::Kill() const { kill(-pid_, SIGKILL); }

void DaemonProcess::Stop(Deadline deadline) {
  if (reaped_) return;
  kill(pid_, SIGTERM);
  pollfd poll_fd = {pidfd_.get(), POLLIN, 0};
  while (poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining()))) <= 0 &&
         !deadline.Expired()) {
  }
  Reap();
}

// A process that hangs in a file system does not even die of SIGKILL for a while: it is then left to init.
void DaemonProcess::Reap() {
  if (reaped_) return;
  reaped_ = true;
  kill(-pid_, SIGKILL);  // also what it left behind, while its number still names the group
  const Deadline deadline = Deadline::After(kDies);
  pollfd poll_fd = {pidfd_.get(), POLLIN, 0};
  while (poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining()))) <= 0 &&
         !deadline.Expired()) {
  }
  waitpid(pid_, nullptr, WNOHANG);
}

std::string DaemonProcess::LastLines() const {
  std::ifstream log(log_file_);
  std::deque<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    lines.push_back(std::move(line));
    if (lines.size() > kLastLines) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  return text;
}

}  // namespace adjoin
