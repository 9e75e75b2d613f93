// Starts a program in a process group of its own that dies with the thread that started it.
//
//   ADJOIN_ASSIGN_OR_RETURN(ChildProcess child, Spawn({.binary = "/usr/lib/adjoin/adjoin-rank",
//                                                      .arguments = {"--rank", "0"},
//                                                      .environment = RankEnvironment()}));
//   poll child.pidfd until it is readable, then waitid(P_PIDFD, ...)
//
// The child's standard input is empty unless it is asked for; its output and error output are pipes that do not block
// the reader. It leaves no core and can gain no privileges.
#ifndef ADJOIN_WORKER_DAEMON_PROCESS_SPAWNER_H_
#define ADJOIN_WORKER_DAEMON_PROCESS_SPAWNER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace adjoin {

// An account of this machine.
struct User {
  std::string name, home;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // the supplementary ones too
};

struct SpawnRequest {
  std::string binary;                    // an absolute path
  std::vector<std::string> arguments;    // without the program's name
  std::vector<std::string> environment;  // "NAME=value", all of it
  std::string folder;                    // its working directory; empty: the caller's
  uint64_t memory_bytes = 0;             // RLIMIT_DATA: an allocation beyond it fails; 0: no limit
  int oom_score_above = 0;               // added to the caller's oom_score_adj
  std::optional<User> user;              // absent: the caller's; else the caller is root
  bool input = false;                    // its standard input is a pipe, ChildProcess::in
  bool ignores_sigterm = false;          // from its first instruction on, unless it decides otherwise
  // Where it runs, and which node of memory it prefers; empty, -1: as the caller. Where the kernel refuses, so it is.
  std::vector<int> processors;
  int memory = -1;
};

struct ChildProcess {
  pid_t pid = 0;
  UniqueFd pidfd, out, err;
  UniqueFd in;  // does not block the writer; -1 where SpawnRequest::input is false
};

// Linux kills the child when the calling *thread* ends, so call it from a thread that lives as long as the daemon.
// Errors: kUnavailable (no processes or descriptors left; the program is not there within 15 s), kNotFound,
// kPermissionDenied (the program cannot be run, or its working directory not entered; the message tells which, and the
// reason).
absl::StatusOr<ChildProcess> Spawn(const SpawnRequest& request);

// Returns the part of the daemon's own environment that a rank gets: PATH, HOME, LANG, UCX_*, OMP_NUM_THREADS (1 unless
// set) and the sanitizers' options. Credentials and all else stay behind. `home`, where it is not empty, is HOME
// instead.
std::vector<std::string> RankEnvironment(const std::string& home = "");

// Errors: kNotFound.
absl::StatusOr<User> FindUser(const std::string& name);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_PROCESS_SPAWNER_H_
