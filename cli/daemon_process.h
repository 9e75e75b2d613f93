// A daemon that runs as long as a command: it dies with it, its output is in a file.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto worker, DaemonProcess::Start("worker", {"/opt/adjoin/adjoin-worker", ...}, log_file));
//   ... worker->Ended() ...
//   worker->Stop(Deadline::After(absl::Seconds(15)));
#ifndef ADJOIN_CLI_DAEMON_PROCESS_H_
#define ADJOIN_CLI_DAEMON_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/unique_fd.h"

namespace adjoin {

// Any thread may call Ended, fd and, until Stop, Kill; else one thread, the one that called Start: Linux kills the
// daemon when it ends.
class DaemonProcess {
 public:
  // The daemon leads a process group, so that a terminal's Ctrl-C does not reach it. Settings of daemons in the
  // environment (ADJOIN_COORDINATOR..., ADJOIN_WORKER_...) are not passed on. Errors: kNotFound (no such program);
  // kUnavailable.
  static absl::StatusOr<std::unique_ptr<DaemonProcess>> Start(const std::string& name,
                                                              const std::vector<std::string>& command,
                                                              const std::string& log_file);
  // Kills the group and reaps the daemon.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  const std::string& name() const { return name_; }
  int fd() const { return pidfd_.get(); }  // readable once the daemon has ended
  bool Ended() const;
  void Kill() const;  // its group; it is still to be stopped
  // SIGTERM, then SIGKILL to the group where that does not end it in time.
  void Stop(Deadline deadline);
  // Its last lines of output.
  std::string LastLines() const;

 private:
  DaemonProcess(std::string name, std::string log_file, pid_t pid, UniqueFd pidfd)
      : name_(std::move(name)), log_file_(std::move(log_file)), pid_(pid), pidfd_(std::move(pidfd)) {}
  void Reap();

  const std::string name_, log_file_;
  const pid_t pid_;
  const UniqueFd pidfd_;
  bool reaped_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_DAEMON_PROCESS_H_
