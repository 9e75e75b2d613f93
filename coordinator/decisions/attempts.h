// The attempts of jobs: their ranks' lives, their ends, and whether another one follows.
//
//   Attempts attempts(options, jobs, workers, homes, queue, leases, outbox);
//   attempts.Start(job, {"worker-0", "worker-1"});               // one worker for each rank
//   attempts.OnRankReady("worker-0", epoch, rank_ready);
//
// What a worker reports of an attempt that is not the job's newest, or not on that worker, is ignored. The first
// failure of an attempt ends it on all ranks. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_ATTEMPTS_H_
#define ADJOIN_COORDINATOR_DECISIONS_ATTEMPTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "coordinator/decisions/checkpoint_homes.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_queue.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/leases.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/restart_policy.h"
#include "coordinator/decisions/start_failures.h"
#include "coordinator/decisions/worker_table.h"
#include "coordinator/placement/assignment.h"
#include "coordinator/store/records.pb.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Counted since the coordinator's start.
struct AttemptCounters {
  std::map<std::string, uint64_t> restarts;  // by cause
  double goodput_seconds = 0;  // of attempts that got further than any before, and of those that succeeded
  double lost_seconds = 0;     // of the others
};

class Attempts {
 public:
  // All arguments outlive the attempts.
  Attempts(const CoordinationOptions& options, JobTable& jobs, WorkerTable& workers, CheckpointHomes& homes,
           StartFailures& starts, JobQueue& queue, Leases& leases, Outbox& outbox)
      : options_(options),
        jobs_(jobs),
        workers_(workers),
        homes_(homes),
        starts_(starts),
        queue_(queue),
        leases_(leases),
        outbox_(outbox) {}
  Attempts(const Attempts&) = delete;
  Attempts& operator=(const Attempts&) = delete;

  // From the store: the highest epoch, and the id of the store that it is counted in; then the newest attempt of each
  // job.
  void Restore(uint64_t last_epoch, uint64_t store_id);
  void RestoreAttempt(JobRecord& job, const StoredAttempt& row);
  uint64_t store_id() const { return store_id_; }

  void Start(JobRecord& job, const Assignment& workers);
  void Cancel(JobRecord& job, const std::string& reason);

  // What workers report.
  void OnRankReady(const std::string& worker, uint64_t epoch, const RankReady& ready);
  void OnRankUpdate(const std::string& worker, uint64_t epoch, const RankUpdate& update);
  void OnRankEnded(const std::string& worker, uint64_t epoch, const RankEnded& ended);
  void OnCleared(const std::string& worker, uint64_t epoch, const std::string& job_id);
  void OnPulse(const std::string& worker, const AttemptPulse& pulse);

  // For a worker that connects. Of another incarnation than its attempts know: before it is attached; `last_heard`: the
  // incarnation before.
  void OnNewIncarnation(const WorkerHello& hello, absl::Duration last_heard);
  // All of them: after it is attached.
  void OnHello(const WorkerHello& hello);
  // For a worker that is lost.
  void OnLost(const std::string& worker, const std::string& why);

  // Lets deadlines pass. True where one did.
  bool Tick();
  void ForgivePause(absl::Duration pause);
  // Ranks that are starting could not be told to, for so long.
  void ExtendStarts(absl::Duration time);

  const AttemptCounters& counters() const { return counters_; }

 private:
  JobRecord* AttemptOf(const std::string& worker, const std::string& job_id, uint64_t epoch);
  void SendStart(const JobRecord& job, const std::string& worker);
  void SendConnect(const JobRecord& job, const std::string& worker);
  void SendStop(const JobRecord& job, const std::string& worker, const std::string& reason);
  void AcknowledgeEnd(const std::string& worker, const std::string& job_id, uint64_t epoch);
  bool IsForeign(const AttemptReport& report) const;
  void GoBeyond(const WorkerHello& hello);
  void HasRun(JobRecord& job, double seconds);
  void OnReport(const std::string& worker, const AttemptReport& report);
  void OnLostMessages(const WorkerHello& hello);
  void HasGpu(RankRecord& rank, const std::string& uuid);
  void Ready(JobRecord& job, RankRecord& rank, const RankReady& ready);
  void ConnectIfReady(JobRecord& job);
  void Update(JobRecord& job, RankRecord& rank, const RankUpdate& update);
  void Ended(JobRecord& job, RankRecord& rank, const RankEnded& ended);
  void Cleared(JobRecord& job, const std::string& worker);
  // `reported`: what a rank or daemon said, where `cause` is another one.
  void End(JobRecord& job, EndCause cause, const std::string& reason, std::optional<EndCause> reported = {});
  // Ends an attempt that a failure on these workers has stopped.
  void EndBy(JobRecord& job, StartFailure failure);
  void EndAfterPeerFailure(JobRecord& job);
  void Close(JobRecord& job, const std::string& reason);
  void CountTime(JobRecord& job, bool useful);
  bool EndWhatIsLate(JobRecord& job);

  const CoordinationOptions& options_;
  JobTable& jobs_;
  WorkerTable& workers_;
  CheckpointHomes& homes_;
  StartFailures& starts_;
  JobQueue& queue_;
  Leases& leases_;
  Outbox& outbox_;
  uint64_t last_epoch_ = 0;
  uint64_t store_id_ = 0;
  AttemptCounters counters_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_ATTEMPTS_H_
