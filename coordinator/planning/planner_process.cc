#include "coordinator/planning/planner_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "coordinator/planning/planner_protocol.h"

namespace adjoin {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);  // between two calls of `go_on`

// posix_spawn's own objects, which are released with their scope.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // The child has no descriptors but its error output and `socket`, which is kPlannerSocket there.
  int KeepOnly(int socket) {
    int failed = posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDWR, 0);
    if (failed == 0) failed = posix_spawn_file_actions_adddup2(&files_, 0, 1);
    if (failed == 0) failed = posix_spawn_file_actions_adddup2(&files_, socket, kPlannerSocket);
    return failed != 0 ? failed : posix_spawn_file_actions_addclosefrom_np(&files_, kPlannerSocket + 1);
  }
  // The child has no signal blocked, and a process group of its own: a terminal's Ctrl-C is not for it.
  void ResetSignals() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// "ended with exit code 3", "was killed by signal 11 (Segmentation fault)".
std::string EndText(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("ended with exit code ", WEXITSTATUS(status));
}

}  // namespace

absl::Status PlannerProcess::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(absl::StrCat("no planner can be started: ", strerror(errno)));
  }
  UniqueFd own(ends[0]), childs(ends[1]);
  fcntl(own.get(), F_SETFL, O_NONBLOCK);
  SpawnSettings settings;
  int failed = settings.KeepOnly(childs.get());
  settings.ResetSignals();
  std::vector<std::string> arguments = {"adjoin-planner", kPlannerArgument, absl::StrCat(getpid()),
                                        absl::StrCat(options_.memory_bytes)};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  if (failed == 0) {
    failed =
        posix_spawn(&pid, options_.program.c_str(), settings.files(), settings.attributes(), pointers.data(), environ);
  }
  if (failed != 0) {
    return absl::UnavailableError(
        absl::StrCat("no planner can be started: ", options_.program, ": ", strerror(failed)));
  }
  pid_ = pid;
  socket_ = std::move(own);
  return absl::OkStatus();
}

int PlannerProcess::Kill() {
  socket_.reset();
  if (pid_ == 0) return 0;
  int status = 0;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

absl::StatusOr<PlanAnswer> PlannerProcess::Make(const PlanTask& task, const std::function<bool()>& go_on) {
  if (pid_ == 0) ADJOIN_RETURN_IF_ERROR(Start());
  std::string bytes;
  bool guesses = false;
  absl::Status status = Exchange(task, QuestionOf(task).SerializeAsString(), go_on, bytes, guesses);
  if (!status.ok()) {
    Kill();
    const bool at_limit = absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
    return guesses && at_limit ? absl::AbortedError(status.message()) : status;
  }
  PlanAnswer answer;
  if (!answer.ParseFromString(bytes)) {
    Kill();
    return absl::AbortedError(absl::StrCat("the planner of ", task.name, " gave an answer that cannot be read"));
  }
  return answer;
}

absl::Status PlannerProcess::Exchange(const PlanTask& task, const std::string& question,
                                      const std::function<bool()>& go_on, std::string& answer, bool& guesses) {
  const Deadline deadline = Deadline::After(options_.limit);
  ADJOIN_RETURN_IF_ERROR(Send(PlannerLength(question.size()) + question, deadline, task, go_on));
  char length[kPlannerLengthBytes];
  ADJOIN_RETURN_IF_ERROR(Receive(length, sizeof(length), deadline, task, go_on));
  if (PlannerLengthFrom(length) == kPlannerGuesses) {
    guesses = true;
    ADJOIN_RETURN_IF_ERROR(Receive(length, sizeof(length), deadline, task, go_on));
  }
  const uint64_t count = PlannerLengthFrom(length);
  if (count > kMaxPlannerMessage) {
    return absl::AbortedError(absl::StrCat("the planner of ", task.name, " gave an answer of ", count, " bytes"));
  }
  answer.resize(count);
  return Receive(answer.data(), count, deadline, task, go_on);
}

absl::Status PlannerProcess::Await(short events, Deadline deadline, const PlanTask& task,
                                   const std::function<bool()>& go_on) {
  while (true) {
    pollfd ready = {socket_.get(), events, 0};
    const int64_t wait =
        std::min<int64_t>(absl::ToInt64Milliseconds(kLook), absl::ToInt64Milliseconds(deadline.Remaining()) + 1);
    if (poll(&ready, 1, static_cast<int>(wait)) > 0) return absl::OkStatus();
    if (!go_on()) return absl::CancelledError("the plan is not wanted any more");
    if (deadline.Expired()) return TooLong(task);
  }
}

absl::Status PlannerProcess::Send(const std::string& bytes, Deadline deadline, const PlanTask& task,
                                  const std::function<bool()>& go_on) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count >= 0) {
      sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      ADJOIN_RETURN_IF_ERROR(Await(POLLOUT, deadline, task, go_on));
    } else if (errno != EINTR) {
      return Death(task);
    }
  }
  return absl::OkStatus();
}

absl::Status PlannerProcess::Receive(char* bytes, size_t count, Deadline deadline, const PlanTask& task,
                                     const std::function<bool()>& go_on) {
  for (size_t received = 0; received < count;) {
    const ssize_t more = recv(socket_.get(), bytes + received, count - received, 0);
    if (more > 0) {
      received += static_cast<size_t>(more);
    } else if (more < 0 && errno == EAGAIN) {
      ADJOIN_RETURN_IF_ERROR(Await(POLLIN, deadline, task, go_on));
    } else if (more == 0 || errno != EINTR) {
      return Death(task);
    }
  }
  return absl::OkStatus();
}

absl::Status PlannerProcess::TooLong(const PlanTask& task) const {
  return absl::DeadlineExceededError(absl::StrCat("the plan of ", task.name, " took longer than ",
                                                  absl::FormatDuration(options_.limit),
                                                  ", which is the coordinator's --plan-seconds: take fewer ranks, or "
                                                  "fewer layers; `adjoin plan` has no limit and shows "
                                                  "where the time goes"));
}

absl::Status PlannerProcess::Death(const PlanTask& task) {
  // It closed its socket, so it has ended or is about to.
  int status = 0;
  const Deadline soon = Deadline::After(absl::Seconds(1));
  pid_t ended = 0;
  while ((ended = waitpid(pid_, &status, WNOHANG)) == 0 && !soon.Expired()) poll(nullptr, 0, 1);
  if (ended == pid_) {
    pid_ = 0;
  } else {
    status = Kill();
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kPlannerOutOfMemory) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the plan of ", task.name, " takes more than ", options_.memory_bytes >> 20,
                     " MiB of memory, which is the coordinator's --plan-memory-mb: take fewer ranks, or fewer layers"));
  }
  LogWarning(absl::StrCat("the planner of ", task.name, " ", EndText(status)));
  return absl::AbortedError(absl::StrCat("the planner failed on ", task.name, ": it ", EndText(status)));
}

}  // namespace adjoin
