// Every job that the coordinator knows, in the order of submission, in memory.
//
//   JobTable table(/*first_number=*/1);
//   JobRecord& job = table.Add(std::move(record));
//   table.SetState(job, RUNNING);
//   ADJOIN_ASSIGN_OR_RETURN(JobRecord* found, table.Resolve("lenet5"));
//
// Records keep their address until Erase. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_TABLE_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/progress_watch.h"
#include "coordinator/decisions/restart_policy.h"
#include "coordinator/placement/output_folders.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// A connection of a worker daemon. A daemon that connects again is another connection.
using ConnectionId = uint64_t;

// What every rank receives: a serialized Plan and its hash.
struct PlannedJob {
  std::string plan;
  std::string hash;
};

// Makes the plan of one job once the sizes of its data sets are known. Called without any lock, from a thread of its own.
using PlanFunction = std::function<absl::StatusOr<PlannedJob>(const std::vector<DatasetSize>&)>;

// Where a field of the spec stands in what the user wrote, "job.textproto:14:3"; "" where that is not known.
using PlaceFunction = std::function<std::string(const std::string& field)>;

enum class RankState { kStarting, kReady, kRunning, kSucceeded, kDrained, kFailed, kKilled };
std::string ToString(RankState state);
RankState RankStateFrom(const std::string& text);  // kKilled for anything unknown

struct RankRecord {
  std::string worker;
  RankState state = RankState::kStarting;
  int64_t pid = 0;
  std::string transport_address;
  std::string transport;
  JobProgress progress;
};

// A failure that a rank suffered because a peer failed: reported only if no cause shows up before `until`.
struct PeerFailure {
  std::string reason;
  absl::Duration since;
  absl::Duration until;
};

// A daemon that may have processes of an attempt.
struct Holder {
  uint64_t incarnation = 0;
  std::string node_id;
  int slots = 0;
  // Another daemon has its name now, and nobody will say that its processes are gone: they are then, when its lease is over.
  std::optional<absl::Duration> lease_end;
};

struct Attempt {
  uint64_t epoch = 0;
  std::vector<RankRecord> ranks;
  std::map<std::string, Holder> holders;  // by worker: those that have not reported AttemptCleared
  uint64_t steps = 0;                     // of training, done
  absl::Duration steps_kept;              // when they last went to the store
  bool over = false;                      // decided; its processes may still be dying
  bool connected = false;                 // the ranks have each other's addresses
  std::string reason;                     // why it ended
  absl::Time started, ended;
  absl::Duration running_since;           // monotonic
  absl::Duration start_deadline;
  absl::Duration lease;                   // the longest that its daemons may believe in
  std::optional<PeerFailure> peer_failure;
  std::optional<ProgressWatch> watch;     // while it runs
};

// How far the check of a job's data files is.
enum class DataCheck { kWaits, kAsked, kPlanning, kDone };

struct JobRecord {
  uint64_t number = 0;
  std::string id;  // "job-17"
  JobSpec spec;
  std::string source, file;  // what the user wrote; source may be empty
  std::string owner;
  int32_t priority = 0;
  std::string idempotency_key;
  PlanFunction plan_function;
  PlaceFunction place_of;  // may be empty
  std::vector<ModelTensor> model;  // to be compared with the file of its weights; empty: not known any more
  std::string plan_hash;   // the plan itself is in the store
  DataCheck data_check = DataCheck::kWaits;
  std::string checked_by;  // a worker
  absl::Duration check_deadline;
  bool accepted = false;  // all is well with it: it goes to the store
  bool durable = false;   // it is in the store

  JobState state = PENDING;
  std::string reason;  // of FAILED, or of the last attempt's end where it waits for the next
  bool held = false;
  absl::Time submitted, started, ended;
  absl::Duration not_before;  // monotonic: the backoff before the next attempt
  absl::Duration backoff;
  absl::Duration running;     // of ended attempts
  // Of a job with checkpoints: OutputGroup of the workers that its newest attempt was or is on, and their names.
  std::string home;
  std::vector<std::string> home_workers;
  bool has_checkpoint = false;  // there: it was heard of one that was written or gone on from
  absl::Duration home_usable;   // monotonic: when the job did not have to wait for its home, the last time
  RestartHistory history;
  Attempt attempt;            // the newest; epoch 0: none yet
  JobProgress progress;
  std::set<std::string> artifacts;
};

bool IsFinal(JobState state);

class JobTable {
 public:
  explicit JobTable(uint64_t first_number) : next_number_(first_number) {}

  // Without a number it gets the next one, and its id.
  JobRecord& Add(std::unique_ptr<JobRecord> job);
  // No job gets a number below this one.
  void SkipTo(uint64_t number) { next_number_ = std::max(next_number_, number); }
  void Erase(uint64_t number);
  void SetState(JobRecord& job, JobState state);

  // Null where there is none of this id.
  JobRecord* Find(const std::string& id);
  JobRecord* Find(uint64_t number);
  // Null where the owner has no job with this key.
  JobRecord* FindKey(const std::string& owner, const std::string& key);
  // `reference`: an id, an unambiguous prefix of one, or a job's name (the latest of that name).
  // Errors: kNotFound; kInvalidArgument when a prefix fits several jobs.
  absl::StatusOr<JobRecord*> Resolve(const std::string& reference);

  // In the order of submission.
  std::vector<JobRecord*> All();
  // In the order of the queue: by priority, then first come, first served.
  std::vector<JobRecord*> Pending();
  // In the same order until `visit(job)` returns false, without looking at the rest of a long queue. `visit` may change the
  // state of the job that it is given, and of no other.
  template <typename Visit>
  void VisitPending(const Visit& visit) {
    for (auto it = pending_.begin(); it != pending_.end();) {
      JobRecord* job = it->second;
      ++it;
      if (!visit(*job)) return;
    }
  }
  const std::set<uint64_t>& Ended() const { return ended_; }  // numbers
  size_t pending_count() const { return pending_.size(); }
  std::vector<JobRecord*> Active();  // STARTING and RUNNING
  const OutputFolders& folders() const { return folders_; }  // of all jobs


 private:
  using QueueKey = std::pair<int64_t, uint64_t>;  // minus the priority, number
  static QueueKey KeyOf(const JobRecord& job) { return {-int64_t{job.priority}, job.number}; }

  uint64_t next_number_;
  std::map<uint64_t, std::unique_ptr<JobRecord>> jobs_;
  std::map<QueueKey, JobRecord*> pending_;
  std::set<uint64_t> active_, ended_;
  std::map<std::pair<std::string, std::string>, uint64_t> keys_;
  OutputFolders folders_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_TABLE_H_
