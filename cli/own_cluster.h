// A coordinator and a worker of this machine for one command: on loopback, with a state folder of their own that goes
// with them.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto cluster, OwnCluster::Start({.slots = 4, .data_root = ".", .output_root = "."},
//   stop_fd)); client_options.address = cluster->address();
//   ...
//   cluster->Stop();
#ifndef ADJOIN_CLI_OWN_CLUSTER_H_
#define ADJOIN_CLI_OWN_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/daemon_process.h"

namespace adjoin {

struct OwnClusterOptions {
  uint32_t slots = 1;
  std::string data_root = ".";
  std::string output_root = ".";  // is made where it is not there
  bool gpus = false;              // the worker offers this machine's GPUs, and ends where there is none
};

// One thread, the one that called Start, and which must outlive the cluster; but until Stop any thread may call Kill,
// and coordinator() and worker() for their fd.
class OwnCluster {
 public:
  // The programs are those beside this one, or where Bazel builds them. Returns once the coordinator listens; jobs wait
  // for the worker. `stop_fd`: when it is readable, the start is given up with kCancelled.
  // Errors also: kNotFound (a program, the data root); kUnavailable, with a daemon's last lines; kDeadlineExceeded.
  static absl::StatusOr<std::unique_ptr<OwnCluster>> Start(const OwnClusterOptions& options, int stop_fd);
  // As Stop.
  ~OwnCluster();

  const std::string& address() const { return address_; }
  const DaemonProcess& coordinator() const { return *coordinator_; }
  const DaemonProcess& worker() const { return *worker_; }
  // "the worker has ended; its last lines: ..."; ok while both run.
  absl::Status Alive() const;
  // Ends both by force, any thread; Stop is still to be called.
  void Kill() const;
  // Ends both, by force where they do not within seconds, and removes their state.
  void Stop();

 private:
  OwnCluster() = default;
  absl::Status StartCoordinator(int stop_fd);
  absl::Status StartWorker(const OwnClusterOptions& options);

  std::string folder_, address_;
  std::unique_ptr<DaemonProcess> coordinator_, worker_;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_OWN_CLUSTER_H_
