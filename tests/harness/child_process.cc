#include "tests/harness/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string Runfile(const std::string& path) {
  const char* root = getenv("TEST_SRCDIR");
  return absl::StrCat(root == nullptr ? "." : root, "/adjoin/", path);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // throws nothing where a file of /proc goes while it is read
  return text.str();
}

absl::StatusOr<std::unique_ptr<ChildProgram>> ChildProgram::Start(const std::vector<std::string>& command,
                                                                  const std::vector<std::string>& environment,
                                                                  const std::string& output) {
  std::vector<std::string> argument_strings = command;
  std::vector<std::string> environment_strings = environment;  // the first of two entries counts
  for (char** entry = environ; *entry != nullptr; ++entry) environment_strings.push_back(*entry);
  std::vector<char*> arguments = Pointers(argument_strings);
  std::vector<char*> variables = Pointers(environment_strings);
  int out = open((output + ".out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int err = open((output + ".err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t parent = getpid();
  // Only calls that are safe after a fork of a process with many threads.
  pid_t pid = _Fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(127);
    execve(arguments[0], arguments.data(), variables.data());
    _exit(127);
  }
  for (int fd : {in, out, err}) close(fd);
  if (pid < 0) return absl::UnavailableError(absl::StrCat("no process: ", strerror(errno)));
  setpgid(pid, pid);
  int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return absl::UnavailableError(absl::StrCat("no process descriptor: ", strerror(errno)));
  return std::unique_ptr<ChildProgram>(new ChildProgram(pid, pidfd, output));
}

void ChildProgram::Signal(int signal) const {
  if (!code_.has_value()) kill(pid_, signal);
}

absl::StatusOr<int> ChildProgram::Wait(Deadline deadline) {
  if (code_.has_value()) return *code_;
  pollfd fd = {pidfd_, POLLIN, 0};
  while (true) {
    int left = static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining()));
    if (poll(&fd, 1, left) > 0) break;
    if (deadline.Expired()) return absl::DeadlineExceededError(absl::StrCat("process ", pid_, " does not end"));
  }
  kill(-pid_, SIGKILL);  // what it leaves behind, while its number still names the group
  int status = 0;
  waitpid(pid_, &status, 0);
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *code_;
}

absl::StatusOr<int> ChildProgram::Stop(Deadline deadline) {
  Signal(SIGTERM);
  absl::StatusOr<int> code = Wait(deadline);
  if (code.ok()) return code;
  Signal(SIGKILL);
  ADJOIN_RETURN_IF_ERROR(Wait(Deadline::After(absl::Seconds(10))).status());
  return code;
}

ChildProgram::~ChildProgram() {
  if (!code_.has_value()) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(pidfd_);
}

}  // namespace adjoin
