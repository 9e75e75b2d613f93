// A rank process's end of the stream to its daemon.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto link, RankProcessLink::Connect({.socket = "rank.sock", .job_id = "job-1", .rank = 0,
//   .epoch = 4},
//                                                        deadline));
//   ADJOIN_ASSIGN_OR_RETURN(RankStart start, link->WaitForStart(deadline));
//   link->OnAbort([&](const absl::Status& reason) { transport->Abort(reason); });
//   link->SendTransportAddress(transport->Address());
//   ADJOIN_ASSIGN_OR_RETURN(RankConnect connect, link->WaitForConnect(deadline));
//   ... link->SendProgress(progress) ...
//   link->SendResult(result, deadline);
//
// The end of the stream on the daemon's side means that the daemon died: the process then ends itself at once, with
// exit code 70. It ends itself with 71 when the lease that the daemon gave it last has run out: the daemon is stopped,
// or does not hear of the coordinator, and another attempt of the job may start elsewhere. Any thread.
#ifndef ADJOIN_WORKER_RANK_RANK_PROCESS_LINK_H_
#define ADJOIN_WORKER_RANK_RANK_PROCESS_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "proto/worker.pb.h"

namespace adjoin {

class RankProcessLink {
 public:
  struct Settings {
    std::string socket;
    std::string job_id;
    uint32_t rank = 0;
    uint64_t epoch = 0;
  };

  virtual ~RankProcessLink() = default;

  // Errors: kUnavailable, kDeadlineExceeded (no daemon at the socket).
  static absl::StatusOr<std::unique_ptr<RankProcessLink>> Connect(const Settings& settings, Deadline deadline);

  // Errors: kDeadlineExceeded; kAborted (the daemon told the rank to stop; with its reason).
  virtual absl::StatusOr<RankStart> WaitForStart(Deadline deadline) = 0;
  virtual absl::StatusOr<RankConnect> WaitForConnect(Deadline deadline) = 0;

  // `callback` runs once, on the link's thread, with kAborted and the daemon's reason; at once where that came already.
  // It is not called after OnAbort(nullptr) has returned.
  virtual void OnAbort(std::function<void(const absl::Status&)> callback) = 0;

  // `callback` runs once, on the link's thread, when the daemon asks the rank to stop after a step that all ranks agree
  // on; at once where it asked already. It is not called after OnDrain(nullptr) has returned.
  virtual void OnDrain(std::function<void()> callback) = 0;

  // `callback` runs on the link's thread each time that the daemon asks for a trace; at once with the last one that
  // came already. It is not called after OnTrace(nullptr) has returned.
  virtual void OnTrace(std::function<void(const RankTrace&)> callback) = 0;

  virtual void SendTransportAddress(const std::string& address) = 0;
  virtual void SendTransport(const std::string& lanes) = 0;
  virtual void SendProgress(const JobProgress& progress) = 0;
  virtual void SendPulse(const RankPulse& pulse) = 0;
  // The last message. Returns when the daemon has taken it, or at the deadline.
  virtual void SendResult(const RankResult& result, Deadline deadline) = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_RANK_PROCESS_LINK_H_
