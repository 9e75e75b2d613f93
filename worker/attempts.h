// The attempts that run on this daemon: joins what the supervisor (processes), the rank link (what ranks say) and the
// coordinator (what is wanted) say about each rank.
//
//   Attempts attempts(settings, send);            // `send` passes a message to the coordinator
//   attempts.Start(epoch, start_ranks);
//   attempts.Stop("job-1", epoch, "cancelled by a user");
//
// Every rank is reported to the coordinator once (RankEnded), after its process was reaped; when no process of an attempt
// is left, AttemptCleared follows. Any thread; it calls `send` with its lock held, so `send` must not call back.
#ifndef ADJOIN_WORKER_ATTEMPTS_H_
#define ADJOIN_WORKER_ATTEMPTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "proto/worker.pb.h"
#include "worker/rank_supervisor.h"

namespace adjoin {

// The daemon's end of the stream to one rank. Any thread may send; Close makes sending a no-op.
class RankPeer {
 public:
  virtual ~RankPeer() = default;
  virtual void Send(const DaemonMessage& message) = 0;
};

class Attempts {
 public:
  struct Settings {
    std::string rank_binary;
    std::string socket;  // where ranks connect, as their --socket
    std::string data_root, output_root;
    std::string net_device, data_port_range;
    absl::Duration stop_grace = absl::Seconds(2);     // between the request to stop and SIGKILL
    absl::Duration exit_grace = absl::Seconds(10);    // between a rank's result and SIGKILL
  };

  Attempts(Settings settings, std::function<void(WorkerMessage)> send);

  // From the coordinator.
  void Start(uint64_t epoch, const StartRanks& start);
  void ConnectRanks(uint64_t epoch, const adjoin::ConnectRanks& connect);
  void Stop(const std::string& job_id, uint64_t epoch, const std::string& reason);

  // The coordinator is lost: everything ends now. Errors: kDeadlineExceeded.
  absl::Status StopAll(const std::string& reason, Deadline deadline);

  // From a rank: its hello, answered by its orders; what it says after that; the end of its stream.
  // Errors: kNotFound (no such rank is to run here, now), kAlreadyExists (it is connected already).
  absl::StatusOr<DaemonMessage> RankConnected(uint64_t epoch, const RankHello& hello, std::shared_ptr<RankPeer> peer);
  void RankSaid(const RankKey& key, const RankMessage& message);
  void RankDisconnected(const RankKey& key);

 private:
  struct Rank {
    int64_t pid = 0;
    std::shared_ptr<RankPeer> peer;  // while its stream lasts
    std::optional<RankResult> result;
    std::optional<RankExit> exit;
    bool reported = false;
  };
  struct Attempt {
    StartRanks start;
    std::map<uint32_t, Rank> ranks;
    bool stopping = false;
  };
  using AttemptKey = std::pair<std::string, uint64_t>;

  void OnLog(const RankKey& key, std::vector<std::string> lines);
  void OnExit(const RankKey& key, const RankExit& exit);
  Rank* Find(const RankKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportIfOver(const RankKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopLocked(const AttemptKey& key, const std::string& reason, absl::Duration grace)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPaths(const StartRanks& start) const;
  SpawnRequest CommandOf(const RankKey& key) const;
  void SendToCoordinator(uint64_t epoch, WorkerMessage message);

  const Settings settings_;
  const std::function<void(WorkerMessage)> send_;
  absl::Mutex mutex_;
  std::map<AttemptKey, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  RankSupervisor supervisor_;  // last: its thread uses the rest
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_ATTEMPTS_H_
