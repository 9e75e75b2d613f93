// Attempts that end before their ranks are connected: no part of the job has run, so the node is to blame as long as
// nothing speaks against the job.
//
//   StartFailures starts(options, workers, homes, outbox);
//   const EndCause cause = starts.Judge(job, {.cause = EndCause::kRankLost, .workers = {"worker-2"}, .reason = ...});
//   starts.Connected(job);                        // the workers of its attempt are well
//
// A worker is set aside where it says itself that it cannot run ranks, or where in a row two jobs failed there that
// failed nowhere else, or that have started elsewhere since (its daemon's loss counts as one job). It gets no ranks for
// 30 s, then one attempt at a time as a trial; each trial that fails doubles the time, to 10 minutes, and an attempt
// that is connected ends it all. The last worker that is left is not set aside for what jobs say of it.
//
// Where the file system of the job's own files does not answer, the worker and the job are both well: neither is
// doubted, and the job starts again as after any failure of the infrastructure, for as often as that takes.
//
// A job keeps away from a worker on which it failed to start, for the same times, where it could run elsewhere; after
// that it only prefers others (JobQueue). A job that fails wherever it starts is to blame itself: the failure on the
// third worker that nothing else speaks against is its own, or that on the last on which it can run; and so is the
// second of those on a worker where another job had started since it failed there before. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_START_FAILURES_H_
#define ADJOIN_COORDINATOR_DECISIONS_START_FAILURES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/decisions/checkpoint_homes.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/restart_policy.h"
#include "coordinator/decisions/worker_table.h"

namespace adjoin {

// In the condition of a worker that is set aside, after the job's id: its failure there counts against the worker.
inline constexpr absl::string_view kStartedElsewhere = "started elsewhere after it had failed there";

struct StartFailure {
  EndCause cause = EndCause::kRankLost;  // by the report alone
  std::vector<std::string> workers;      // where it failed
  bool killed = false;                   // a process was, from outside
  bool worker_lost = false;              // the daemon was
  bool node_fault = false;               // the worker says so: RankEnded.node_fault
  bool files_fault = false;              // likewise: RankEnded.files_fault
  std::string reason;
};

class StartFailures {
 public:
  // All arguments outlive it.
  StartFailures(const CoordinationOptions& options, WorkerTable& workers, const CheckpointHomes& homes, Outbox& outbox)
      : options_(options), workers_(workers), homes_(homes), outbox_(outbox) {}
  StartFailures(const StartFailures&) = delete;
  StartFailures& operator=(const StartFailures&) = delete;

  // Call it before the attempt is ended. Returns the cause of its end: kNodeLost where the job is not to blame.
  EndCause Judge(JobRecord& job, const StartFailure& failure);
  // The ranks of the job's attempt are connected. True where other jobs may start on its workers because of that.
  bool Connected(JobRecord& job);
  // A worker says that it cannot run ranks, whatever it was about to run.
  void NodeFault(const std::string& worker, const std::string& reason);
  // The job will not start again. What it says of workers counts no more, unless it has started elsewhere since.
  void Gone(const JobRecord& job);

  // How long the job keeps away from the worker, where it failed to start there and nothing has started there since:
  // for the times above, and where the worker is due for a trial, a moment longer, so jobs that have not failed there
  // come first; where its files did not answer, for these times whatever has started there. In the past, or
  // -InfiniteDuration(): it does not.
  absl::Duration AvoidedUntil(const JobRecord& job, const std::string& worker) const;
  // True where the job could run on workers on which it has not failed to start, for whatever reason, if nothing else
  // ran. Those that other jobs had set aside count, too: they are tried again.
  bool CouldRunElsewhere(const JobRecord& job) const;

 private:
  // A job that failed to start on a worker, or an incarnation of the daemon that was lost while jobs started there.
  struct Witness {
    uint64_t job = 0;
    uint64_t incarnation = 0;
    bool operator<(const Witness& other) const {
      return std::tie(job, incarnation) < std::tie(other.job, other.incarnation);
    }
  };
  struct Doubts {
    std::set<Witness> witnesses;  // since an attempt was last connected there
    int times = 0;                // that it was set aside since then
    bool node_fault = false;
  };
  bool CouldRunWhere(const JobRecord& job, const std::function<bool(const std::string& worker)>& may) const;
  void Doubt(const std::string& worker, Witness witness, const std::string& reason);
  void Withdraw(uint64_t job, bool is_gone);
  void SetAside(const std::string& worker, Doubts& doubts, const std::string& reason);
  bool IsLast(const std::string& worker) const;
  bool OthersStartWhere(const JobRecord& job) const;
  bool IsTrusted(const std::string& worker, uint64_t but) const;

  const CoordinationOptions& options_;
  WorkerTable& workers_;
  const CheckpointHomes& homes_;
  Outbox& outbox_;
  std::map<std::string, Doubts> doubts_;  // by worker
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_START_FAILURES_H_
