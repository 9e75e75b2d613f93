#include "primitives/transport/rank_processes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace adjoin {
namespace {

constexpr int kTimedOut = 124;  // as timeout(1)

// Blocks the signals that Wait takes, until it is destroyed.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set_, number);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const sigset_t& before() const { return before_; }
  // The signal that came, or -1 at the deadline (or, harmlessly, before).
  int Wait(Deadline deadline) const {
    const timespec time = absl::ToTimespec(deadline.Remaining());
    return sigtimedwait(&set_, nullptr, &time);
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

class Processes {
 public:
  ~Processes() {
    Kill();
    for (const pid_t pid : running_) waitpid(pid, nullptr, 0);  // killed: it ends
  }

  absl::Status Start(char** argv, std::vector<std::string> environment, const sigset_t& signals) {
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    std::vector<char*> variables;
    for (std::string& entry : environment) variables.push_back(entry.data());
    variables.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return absl::UnavailableError(absl::StrCat("a process cannot be started: ", strerror(errno)));
    if (pid == 0) {
      sigprocmask(SIG_SETMASK, &signals, nullptr);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) execve("/proc/self/exe", argv, variables.data());
      _exit(127);
    }
    running_.insert(pid);
    return absl::OkStatus();
  }

  // Reaps what has ended. Processes that end after Kill do not count.
  void Reap() {
    for (auto it = running_.begin(); it != running_.end();) {
      int status = 0;
      if (waitpid(*it, &status, WNOHANG) != *it) {
        ++it;
        continue;
      }
      if (!killed_) worst_ = std::max(worst_, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
      it = running_.erase(it);
    }
  }

  void Kill() {
    killed_ = true;
    for (const pid_t pid : running_) kill(pid, SIGKILL);
  }

  bool AnyLeft() const { return !running_.empty(); }
  int worst() const { return worst_; }

 private:
  std::set<pid_t> running_;
  bool killed_ = false;
  int worst_ = 0;
};

}  // namespace

absl::StatusOr<int> RunRankProcesses(char** argv, const std::vector<std::vector<std::string>>& environments,
                                     Deadline deadline) {
  const Signals signals;
  Processes processes;
  for (const std::vector<std::string>& environment : environments) {
    const absl::Status status = processes.Start(argv, environment, signals.before());
    if (!status.ok()) return status;
  }
  // The set of processes is looked at after every signal: SIGCHLDs of several processes may come as one.
  while (true) {
    processes.Reap();
    if (processes.worst() != 0 || !processes.AnyLeft()) return processes.worst();
    if (deadline.Expired()) return kTimedOut;
    const int number = signals.Wait(deadline);
    if (number == SIGTERM || number == SIGINT) return 128 + number;
  }
}

}  // namespace adjoin
