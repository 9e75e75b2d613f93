#include "cli/launch.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/launchers.h"
#include "base/status_macros.h"

extern char** environ;

namespace adjoin {
namespace {

constexpr absl::Duration kAgain = absl::Milliseconds(50);     // between looks for the first task
constexpr absl::Duration kMissing = absl::Milliseconds(500);  // at the end, for tasks that the queue had no place for
constexpr absl::Duration kTelling = absl::Seconds(10);        // at the end, for all of them
constexpr int kQueue = 128;                                   // places for connections that every Linux has

// What the launchers call a launch. All its tasks have the same.
std::string RunOf(const std::function<const char*(const char*)>& variable) {
  std::string run;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    const char* value = variable(name);
    absl::StrAppend(&run, run.empty() ? "" : " ", value == nullptr ? "-" : value);
  }
  return run;
}

// FNV-1a: another process gets the same.
uint64_t HashOf(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

sockaddr_un AddressOf(const std::string& name, socklen_t& size) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  // Linux's abstract names begin with a 0 and are no files.
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// The user at the other end of a connection.
std::optional<uid_t> PeerOf(const UniqueFd& fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

// Adds the processors that Slurm binds its tasks to: "mask_cpu:" with masks in hexadecimal, "map_cpu:" with numbers,
// one of each for a task. Other kinds of binding have no list.
void AddBound(const char* type, const char* list, cpu_set_t& processors) {
  if (type == nullptr || list == nullptr) return;
  const bool masks = absl::StartsWith(type, "mask_cpu"), numbers = absl::StartsWith(type, "map_cpu");
  if (!masks && !numbers) return;
  for (absl::string_view entry : absl::StrSplit(list, ',')) {
    int number = 0;
    if (numbers && absl::SimpleAtoi(entry, &number) && number >= 0 && number < CPU_SETSIZE)
      CPU_SET(number, &processors);
    if (!masks) continue;
    absl::ConsumePrefix(&entry, "0x");
    for (size_t digit = 0; digit < entry.size() && 4 * digit < CPU_SETSIZE; ++digit) {
      const char c = entry[entry.size() - 1 - digit];
      if (!absl::ascii_isxdigit(c)) break;
      const int bits = absl::ascii_isdigit(c) ? c - '0' : absl::ascii_tolower(c) - 'a' + 10;
      for (size_t bit = 0; bit < 4; ++bit) {
        if ((bits >> bit & 1) != 0) CPU_SET(4 * digit + bit, &processors);
      }
    }
  }
}

// Milliseconds, at least one.
int PollTime(absl::Duration time) { return static_cast<int>(absl::ToInt64Milliseconds(time)) + 1; }

UniqueFd Socket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

absl::StatusOr<Launch> LaunchOf(const std::function<const char*(const char*)>& variable) {
  for (const Launcher& launcher : kLaunchers) {
    const char* task = variable(launcher.task);
    const char* tasks = variable(launcher.tasks);
    if (task == nullptr) continue;
    Launch launch;
    launch.variable = launcher.task;
    launch.run = RunOf(variable);
    ADJOIN_ASSIGN_OR_RETURN(launch.task, LauncherNumber(launcher.task, task, 0, kMostTasks - 1));
    if (tasks == nullptr) {
      if (launch.task == 0) return Launch{};
      return absl::FailedPreconditionError(
          absl::StrCat(launcher.task, " is ", launch.task, ", but ", launcher.tasks,
                       " is not set: start `adjoin run` once, or by mpirun or srun, which set both"));
    }
    ADJOIN_ASSIGN_OR_RETURN(launch.tasks, LauncherNumber(launcher.tasks, tasks, launch.task + 1, kMostTasks));
    const char* here = launcher.local_tasks == nullptr ? nullptr : variable(launcher.local_tasks);
    const char* nodes = launcher.nodes == nullptr ? nullptr : variable(launcher.nodes);
    const bool elsewhere = (here != nullptr && absl::string_view(here) != absl::StrCat(launch.tasks)) ||
                           (nodes != nullptr && absl::string_view(nodes) != "1");
    if (elsewhere) {
      return absl::FailedPreconditionError(
          absl::StrCat("the ", launch.tasks, " tasks are on several machines, but `adjoin run` is for one (",
                       here != nullptr ? launcher.local_tasks : launcher.nodes, " is ", here != nullptr ? here : nodes,
                       "): start a coordinator and a worker on each machine (docs/security.md), and submit the job"));
    }
    return launch;
  }
  return Launch{};
}

cpu_set_t ProcessorsOf(const Launch& launch, const std::function<const char*(const char*)>& variable, pid_t launcher) {
  cpu_set_t own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof(own), &own);
  // MPICH's mpirun tells of the tasks here; by Slurm's own PMI nobody does.
  const bool by_slurm =
      launch.variable == "SLURM_PROCID" || (launch.variable == "PMI_RANK" && variable("MPI_LOCALNRANKS") == nullptr);
  cpu_set_t all = own;
  if (by_slurm) {
    AddBound(variable("SLURM_CPU_BIND_TYPE"), variable("SLURM_CPU_BIND_LIST"), all);
  } else {
    cpu_set_t of_launcher;
    CPU_ZERO(&of_launcher);
    if (sched_getaffinity(launcher, sizeof(of_launcher), &of_launcher) == 0) CPU_OR(&all, &own, &of_launcher);
  }
  return all;
}

void LeaveLauncher(const Launch& launch) {
  if (launch.variable.empty()) return;
  const cpu_set_t processors = ProcessorsOf(
      launch, [](const char* name) { return getenv(name); }, getppid());
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view name = absl::string_view(*entry).substr(0, absl::string_view(*entry).find('='));
    for (const char* prefix : {"OMPI_", "PMI_", "PMIX_", "PRTE_", "MV2_COMM_", "HYDI_", "MPI_LOCAL"}) {
      if (absl::StartsWith(name, prefix)) names.emplace_back(name);
    }
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  sched_setaffinity(0, sizeof(processors), &processors);
}

std::string SocketName(const Launch& launch) {
  // The same PID may be another process's in another namespace, which may have the same network.
  struct stat pids = {};
  if (stat("/proc/self/ns/pid", &pids) != 0) pids.st_ino = 0;
  return absl::StrCat("adjoin-run-", geteuid(), "-", getppid(), "-", pids.st_ino, "-", absl::Hex(HashOf(launch.run)));
}

absl::StatusOr<std::unique_ptr<FirstTask>> FirstTask::Start(const Launch& launch) {
  if (launch.tasks == 1) return nullptr;
  UniqueFd fd = Socket();
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(SocketName(launch), size);
  if (fd.get() < 0 || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), launch.tasks) != 0) {
    return absl::UnavailableError(absl::StrCat("the other tasks cannot be waited for: ", strerror(errno),
                                               "; start one `adjoin run` at a time, or each by an mpirun of its own"));
  }
  return std::unique_ptr<FirstTask>(new FirstTask(std::move(fd), launch.tasks - 1));
}

void FirstTask::Finish(int code, absl::Duration late) {
  const char byte = static_cast<char>(code);
  const Deadline all = Deadline::After(kTelling);
  const Deadline missing = Deadline::At(std::max(started_ + absl::ToChronoNanoseconds(late),
                                                 Deadline::Clock::now() + absl::ToChronoNanoseconds(kMissing)));
  for (int told = 0; told < others_ && !all.Expired();) {
    const UniqueFd task(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (task.get() >= 0) {
      // A stranger is no task, nor is one that has gone.
      if (PeerOf(task) == geteuid() && send(task.get(), &byte, 1, MSG_NOSIGNAL) == 1) ++told;
    } else if (errno == EAGAIN) {
      if (missing.Expired()) return;
      pollfd next = {fd_.get(), POLLIN, 0};
      poll(&next, 1, PollTime(std::min(missing.Remaining(), all.Remaining())));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      absl::SleepFor(kAgain);  // without a descriptor for it, a connection stays in the queue
    }
  }
}

absl::StatusOr<int> WaitForFirstTask(const Launch& launch, absl::Duration start) {
  const Deadline deadline = Deadline::After(start);
  const std::string name = SocketName(launch);
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(name, size);
  while (true) {
    const UniqueFd fd = Socket();
    if (fd.get() >= 0 && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
      if (const std::optional<uid_t> user = PeerOf(fd); user != geteuid()) {
        return absl::PermissionDeniedError(absl::StrCat(
            "the socket @", name, ", on which the tasks meet, belongs to ",
            user.has_value() ? absl::StrCat("user ", *user) : "an unknown user", ", not to task 0: start again"));
      }
      char byte = 0;
      ssize_t got = 0;
      do {
        pollfd end = {fd.get(), POLLIN, 0};
        poll(&end, 1, -1);
        got = read(fd.get(), &byte, 1);
      } while (got < 0 && (errno == EINTR || errno == EAGAIN));
      return got == 1 ? static_cast<unsigned char>(byte) : 1;
    }
    // Where the tasks are more than the queue's places, the first one is there and lets the others in at its end.
    const bool queued = fd.get() >= 0 && errno == EAGAIN && launch.tasks > kQueue;
    if (deadline.Expired() && !queued) {
      return absl::DeadlineExceededError(absl::StrCat(
          "task 0 of ", launch.tasks, " does not answer on this machine after ", absl::FormatDuration(start), " (",
          launch.variable, " is ", launch.task,
          "): mpirun or srun has to start `adjoin run` itself, on one machine, not in a script of each task"));
    }
    absl::SleepFor(kAgain);
  }
}

}  // namespace adjoin
