// The worker daemon: joins the stream to the coordinator, the rank processes, the data checks and the uploads.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon, Daemon::Create(settings));
//   absl::Status status = daemon->Run();       // until Stop, which any thread may call
//
// In this version ranks do not outlive the stream to the coordinator: when it ends, they are killed before the daemon
// connects again.
#ifndef ADJOIN_WORKER_DAEMON_H_
#define ADJOIN_WORKER_DAEMON_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adjoin {

struct DaemonSettings {
  std::string coordinator;  // HOST:PORT
  std::string name, address;
  uint32_t slots = 1;
  uint64_t incarnation = 0;
  std::string data_root, output_root;  // absolute, existing
  std::string net_device, data_port_range;
  std::string rank_binary;  // absolute
};

class Daemon {
 public:
  virtual ~Daemon() = default;

  // Listens for ranks on "rank.sock" in the working directory. Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(DaemonSettings settings);

  // Errors: those of CoordinatorLink::Run; kDeadlineExceeded (a rank that cannot be killed).
  virtual absl::Status Run() = 0;
  virtual void Stop() = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_H_
