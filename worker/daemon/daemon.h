// The worker daemon: joins the stream to the coordinator, the rank processes, the data checks and the uploads.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon, Daemon::Create(settings));
//   absl::Status status = daemon->Run();       // until Stop, which any thread may call
//   daemon->Drain(absl::Seconds(20));          // on another thread, while Run runs: before Stop
//
// Ranks outlive the stream to the coordinator as long as their lease lasts; it grows with every heartbeat that the
// coordinator acknowledges. When it is over they are killed, and the daemon goes on trying to connect. Ranks die with
// their daemon.
#ifndef ADJOIN_WORKER_DAEMON_DAEMON_H_
#define ADJOIN_WORKER_DAEMON_DAEMON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/server_watch.h"
#include "proto/rates.pb.h"
#include "worker/daemon/coordinator_link.h"
#include "worker/daemon/gpu_finder.h"
#include "worker/daemon/process_spawner.h"
#include "worker/daemon/rank_binding.h"

namespace adjoin {

struct DaemonSettings {
  std::string coordinator;  // HOST:PORT
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  ServerCheck check_server;  // of these credentials; empty: none
  std::string name, address;
  std::string node_id;    // worker/daemon/node_id.h
  std::string state_dir;  // absolute: the working directory of the process
  uint32_t slots = 1;
  uint64_t memory_bytes = 0;  // for ranks; 0: not known
  uint64_t incarnation = 0;
  std::map<std::string, std::string> labels;  // what jobs may ask of a node
  std::string data_root, output_root;         // absolute, existing
  std::string cache_dir;                      // absolute, made where it is missing; empty: a folder of the daemon's own
  int64_t cache_bytes = 0;                    // which it may have; 0: 80 % of its disk
  std::string net_device, data_port_range;
  std::string rank_binary;                        // absolute
  std::vector<RankPlace> places;                  // of a rank in each slot; empty: ranks run anywhere
  std::optional<User> rank_user;                  // absent: the daemon's own
  GpuChoice gpus;                                 // that ranks may use
  std::optional<RateTable> rates;                 // as it was measured; absent: it was not
  std::string checker_binary = "/proc/self/exe";  // begins as worker/daemon/data_check_child.h tells
  size_t data_checks = 4;                         // at once
  absl::Duration data_check_limit = absl::Seconds(30);
  absl::Duration keep_failed = absl::Hours(168);  // folders of attempts that failed or were cancelled
  std::string ready_file;  // absolute; there while the coordinator has welcomed the daemon; empty: none
  std::function<ClientInterceptors()> interceptors;
};

class Daemon {
 public:
  virtual ~Daemon() = default;

  // Ends the ranks that an earlier daemon with the same working directory has left, and listens for its own in the
  // folder "link" there. Errors: those of FindGpus; kUnavailable; kDeadlineExceeded (a process that does not die),
  // kDataLoss (the record of processes).
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(DaemonSettings settings);

  // Errors: those of CoordinatorLink::Run; kDeadlineExceeded (a rank that cannot be killed).
  virtual absl::Status Run() = 0;
  // Asks all ranks to stop after a step that the ranks of their jobs agree on, and returns when all have ended and the
  // coordinator knows. What is left after `limit` is killed. Starts no ranks any more.
  virtual void Drain(absl::Duration limit) = 0;
  // Ends Run, and Drain if it waits.
  virtual void Stop() = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DAEMON_H_
