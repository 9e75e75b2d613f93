#include "worker/daemon/process_spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mempolicy.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr int kBitsOfWord = 8 * sizeof(unsigned long);
constexpr absl::Duration kStart = absl::Seconds(15);  // of a program
constexpr absl::Duration kDies = absl::Seconds(1);

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe: ", strerror(errno)));
  Pipe made;
  made.read = UniqueFd(ends[0]);
  made.write = UniqueFd(ends[1]);
  return made;
}

// A child's way to its program, all of it made before the fork.
struct Prepared {
  const SpawnRequest& request;
  char* const* arguments;
  char* const* environment;
  std::string oom_score;
  pid_t parent;
  int in;  // -1: empty
  int out, err, failure;
  bool bound, prefers_memory;
  cpu_set_t processors;
  std::array<unsigned long, 16> memory;  // NOLINT: the kernel's word
};

// What a child did when it failed.
enum class Step { kProgram, kFolder, kUser };
struct Failure {
  Step step = Step::kProgram;
  int cause = 0;  // errno
};

// PR_SET_PDEATHSIG does not survive a change of user, so it comes after this. The C library's functions for it would
// wait for threads that a forked child does not have.
bool BecomeUser(const User& user) {
  return syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
         syscall(SYS_setresgid, user.gid, user.gid, user.gid) == 0 &&
         syscall(SYS_setresuid, user.uid, user.uid, user.uid) == 0;
}

// The C library's sigaction waits for a lock that another thread may have held at the fork (glibc 2.41 has one for
// SIGABRT).
void SetSignalHandler(int number, void (*handler)(int)) {
  struct {
    void (*handler)(int);
    unsigned long others[7];  // NOLINT: flags, restorer and mask, in any order
  } action = {handler, {}};
  syscall(SYS_rt_sigaction, number, &action, nullptr, sizeof(uint64_t));
}

// Runs in the child, between fork and exec: only calls that are safe after a fork of a process with many threads, and
// no allocation. Returns only where it fails, with errno.
Step BecomeProgram(const Prepared& prepared) {
  const SpawnRequest& request = prepared.request;
  setpgid(0, 0);
  int in = prepared.in >= 0 ? prepared.in : open("/dev/null", O_RDONLY);
  if (in < 0 || dup2(in, 0) < 0 || dup2(prepared.out, 1) < 0 || dup2(prepared.err, 2) < 0) return Step::kProgram;
  // Libraries open files and sockets of the daemon without O_CLOEXEC. And where a file system holds this child up
  // below, the pipes of others that are forked meanwhile have to end all the same.
  if (prepared.failure > 3) syscall(SYS_close_range, 3, prepared.failure - 1, 0);
  syscall(SYS_close_range, prepared.failure + 1, ~0U, 0);
  if (prepared.bound) sched_setaffinity(0, sizeof(prepared.processors), &prepared.processors);
  if (prepared.prefers_memory) {
    syscall(SYS_set_mempolicy, MPOL_PREFERRED, prepared.memory.data(), prepared.memory.size() * kBitsOfWord);
  }
  const rlimit no_core = {0,
                          0};  // writing one takes long where much memory is used, and the process dies only after it
  setrlimit(RLIMIT_CORE, &no_core);
  const rlimit data = {request.memory_bytes, request.memory_bytes};
  if (request.memory_bytes > 0 && setrlimit(RLIMIT_DATA, &data) != 0) return Step::kProgram;
  int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  // A rank without it is no worse than the daemon.
  if (score >= 0 && write(score, prepared.oom_score.data(), prepared.oom_score.size()) < 0) close(score);
  if (!request.folder.empty() && chdir(request.folder.c_str()) != 0) return Step::kFolder;
  if (request.user.has_value() && !BecomeUser(*request.user)) return Step::kUser;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(127);  // the parent died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) SetSignalHandler(number, SIG_DFL);
  if (request.ignores_sigterm) SetSignalHandler(SIGTERM, SIG_IGN);
  execve(request.binary.c_str(), prepared.arguments, prepared.environment);
  return Step::kProgram;
}

absl::Status ErrorOf(const Failure& failure, const SpawnRequest& request) {
  switch (failure.step) {
    case Step::kFolder:
      return ErrnoStatus(failure.cause,
                         absl::StrCat(request.binary, "'s working directory ", request.folder, " cannot be entered"));
    case Step::kUser:
      return ErrnoStatus(failure.cause, absl::StrCat(request.binary, " cannot be run as ", request.user->name));
    default: return ErrnoStatus(failure.cause, absl::StrCat(request.binary, " cannot be run"));
  }
}

// Returns the text to write to a child's oom_score_adj.
std::string OomScore(int above) {
  std::ifstream file("/proc/self/oom_score_adj");
  int own = 0;
  if (!(file >> own)) own = 0;
  return absl::StrCat(std::min(own + above, 1000));
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<ChildProcess> Spawn(const SpawnRequest& request) {
  ADJOIN_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ADJOIN_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  Pipe in;
  if (request.input) {
    ADJOIN_ASSIGN_OR_RETURN(in, MakePipe());
  }
  ADJOIN_ASSIGN_OR_RETURN(Pipe failure, MakePipe());  // closed by a successful exec, else holds a Failure
  std::vector<std::string> argument_strings = {request.binary};
  argument_strings.insert(argument_strings.end(), request.arguments.begin(), request.arguments.end());
  std::vector<std::string> environment_strings = request.environment;
  std::vector<char*> arguments = Pointers(argument_strings);
  std::vector<char*> environment = Pointers(environment_strings);
  Prepared prepared{.request = request,
                    .arguments = arguments.data(),
                    .environment = environment.data(),
                    .oom_score = OomScore(request.oom_score_above),
                    .parent = getpid(),
                    .in = in.read.get(),
                    .out = out.write.get(),
                    .err = err.write.get(),
                    .failure = failure.write.get(),
                    .bound = false,
                    .prefers_memory = false,
                    .processors = {},
                    .memory = {}};
  for (const int processor : request.processors) {
    if (processor < 0 || processor >= CPU_SETSIZE) continue;
    prepared.bound = true;
    CPU_SET(processor, &prepared.processors);
  }
  prepared.prefers_memory =
      request.memory >= 0 && request.memory < static_cast<int>(prepared.memory.size() * kBitsOfWord);
  if (prepared.prefers_memory) prepared.memory[request.memory / kBitsOfWord] = 1ul << (request.memory % kBitsOfWord);

  pid_t pid = _Fork();  // unlike fork, runs no handlers of libraries
  if (pid < 0) return absl::UnavailableError(absl::StrCat("no process: ", strerror(errno)));
  if (pid == 0) {
    Failure failed;
    failed.step = BecomeProgram(prepared);
    failed.cause = errno;
    if (write(failure.write.get(), &failed, sizeof(failed)) < 0) _exit(126);
    _exit(127);
  }
  failure.write.reset();
  Failure failed;
  pollfd begun = {failure.read.get(), POLLIN, 0};
  const Deadline deadline = Deadline::After(kStart);
  int ready;
  do {
    ready = poll(&begun, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining())));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    const UniqueFd dying(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    kill(pid, SIGKILL);
    pollfd dead = {dying.get(), POLLIN, 0};
    poll(&dead, 1, static_cast<int>(absl::ToInt64Milliseconds(kDies)));
    waitpid(pid, nullptr, WNOHANG);  // one that waits in the kernel, for a file system, is left to init
    return absl::UnavailableError(absl::StrCat(request.binary, " has not started within ", absl::FormatDuration(kStart),
                                               ": does its file system answer?"));
  }
  const ssize_t got = read(failure.read.get(), &failed, sizeof(failed));
  if (got == sizeof(failed)) {
    waitpid(pid, nullptr, 0);
    return ErrorOf(failed, request);
  }
  ChildProcess child;
  child.pid = pid;
  child.pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (child.pidfd.get() < 0) {
    absl::Status status = absl::UnavailableError(absl::StrCat("no process descriptor: ", strerror(errno)));
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  child.out = std::move(out.read);
  child.err = std::move(err.read);
  child.in = std::move(in.write);
  if (request.input) fcntl(child.in.get(), F_SETFL, O_NONBLOCK);
  fcntl(child.out.get(), F_SETFL, O_NONBLOCK);
  fcntl(child.err.get(), F_SETFL, O_NONBLOCK);
  return child;
}

std::vector<std::string> RankEnvironment(const std::string& home) {
  static constexpr absl::string_view kKept[] = {
      "PATH",         "HOME",          "LANG",         "OMP_NUM_THREADS",
      "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "ADJOIN_SHARED_CHANNELS"};
  std::vector<std::string> kept;
  bool threads_set = false;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    absl::string_view text = *entry;
    absl::string_view name = text.substr(0, text.find('='));
    bool keep = absl::StartsWith(name, "UCX_");
    for (absl::string_view wanted : kKept) keep = keep || name == wanted;
    if (name == "HOME" && !home.empty()) keep = false;
    if (keep) kept.emplace_back(text);
    threads_set = threads_set || name == "OMP_NUM_THREADS";
  }
  if (!threads_set) kept.push_back("OMP_NUM_THREADS=1");
  if (!home.empty()) kept.push_back("HOME=" + home);
  return kept;
}

absl::StatusOr<User> FindUser(const std::string& name) {
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> text(1 << 16);
  int cause = getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no user '", name, "'", cause == 0 ? "" : ": ", cause == 0 ? "" : strerror(cause)));
  }
  User user;
  user.name = name;
  user.home = entry.pw_dir;
  user.uid = entry.pw_uid;
  user.gid = entry.pw_gid;
  int count = 1024;
  user.groups.resize(count);
  if (getgrouplist(name.c_str(), entry.pw_gid, user.groups.data(), &count) < 0) {
    return absl::NotFoundError(absl::StrCat("the groups of user '", name, "' cannot be read"));
  }
  user.groups.resize(count);
  return user;
}

}  // namespace adjoin
