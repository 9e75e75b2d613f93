// What the coordinator knows of one job and of its newest attempt. Plain data: JobTable owns the records, and each
// part of CoordinationService changes the members that are its business.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_RECORD_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_RECORD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/progress_watch.h"
#include "coordinator/decisions/restart_policy.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

// A connection of a worker daemon. A daemon that connects again is another connection.
using ConnectionId = uint64_t;

// What every rank receives: a serialized Plan and its hash; and what the plan tells before anything ran.
struct PlannedJob {
  std::string plan;
  std::string hash;
  StepPrediction predicted = {};  // of the rank that needs most; without bytes: not known
  std::string memory = "";        // what makes them up, for people: "(parameters 1.10 GiB, ...), in the forward pass"
};

// A spec as the user wrote it, from which its plan is made.
struct SubmittedSpec {
  JobSpec spec;              // where there is no text
  std::string source, file;  // the text, and what to call it in messages
};

// The location of a field of the spec in the text that the user wrote, "job.textproto:14:3"; "" where that is not
// known.
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
  std::optional<Gpu> gpu;  // as its daemon reported it
  std::string binding;     // likewise
  JobProgress progress;
};

// A failure that a rank suffered because a peer failed: reported only if no cause shows up before `until`.
struct PeerFailure {
  std::string reason;
  absl::Duration since;
  absl::Duration until;
};

// A trace that rank 0 was told to make.
struct TraceAsked {
  std::string request_id;
  absl::Duration at;  // monotonic
};

// A daemon that may have processes of an attempt.
struct Holder {
  uint64_t incarnation = 0;
  std::string node_id;
  int slots = 0;
  // Set where another node's daemon has the worker's name now. No report will come that the processes have gone: they
  // have when their lease is over.
  std::optional<absl::Duration> lease_end;
};

struct Attempt {
  uint64_t epoch = 0;
  std::vector<RankRecord> ranks;
  std::map<std::string, Holder> holders;  // by worker; those that have not reported AttemptCleared
  uint64_t steps = 0;                     // of training, done
  absl::Duration steps_kept;              // when `steps` last went to the store
  bool over = false;                      // decided; its processes may still be dying
  bool connected = false;                 // the ranks have each other's addresses
  std::string reason;                     // why it ended
  absl::Time started, ended;
  absl::Duration running_since;  // monotonic
  bool restored = false;         // an earlier coordinator started it: its daemons know better how long it has run
  absl::Duration start_deadline;
  absl::Duration lease;  // the longest one that its daemons may know of
  std::optional<PeerFailure> peer_failure;
  std::optional<ProgressWatch> watch;                  // while it runs
  absl::Duration look_at = -absl::InfiniteDuration();  // while it runs: something may be late then, and not before
  std::optional<TraceAsked> trace;                     // the newest one; not in the store
};

// How far the check of a job's data files is: no worker has it; a worker has it; the plan is being made; all is done.
enum class DataCheck { kWaits, kAsked, kPlanning, kDone };

// Attempts of a job that ended before their ranks were connected, since the last one that came so far
// (start_failures.h).
struct FailedStarts {
  struct Place {
    int times = 0;
    absl::Duration failed_at;    // monotonic: the last time
    absl::Duration avoid_until;  // likewise
  };
  std::map<std::string, Place> workers;  // where
  // Where the file system of the job's own files did not answer: that speaks against no worker, and is no failure of
  // the job's.
  std::map<std::string, Place> without_files;
  absl::Duration since;         // monotonic: the first of them
  uint32_t in_row = 0;          // those of which it is open whether the job is to blame
  uint32_t against_others = 0;  // those where other jobs had started since it failed there before

  bool Any() const { return !workers.empty() || !without_files.empty(); }
  bool On(const std::string& worker) const { return workers.count(worker) > 0 || without_files.count(worker) > 0; }
};

struct JobRecord {
  uint64_t number = 0;
  std::string id;         // "job-17"
  uint64_t tag = 0;       // random: names its checkpoints, also where another store gives the number again
  JobSpec spec;           // in the table never changed: JobTable::SpecOf
  size_t spec_bytes = 0;  // of memory, with `written`, when it was submitted; JobTable::Add sets it
  std::shared_ptr<const SubmittedSpec> written;  // until it is planned; null: as `spec` says
  std::string owner;
  bool any_folder = false;  // an admin's: it may use folders of other owners
  int32_t priority = 0;
  std::string idempotency_key;
  PlaceFunction place_of;          // may be empty; until it is planned
  std::vector<ModelTensor> model;  // to be compared with the file of its weights; empty once the plan is made
  std::string weights;             // where those of weights.from_job are, below the output root; until it is planned
  std::optional<FileSums> weights_file;  // what the worker found there, or at weights.from_output; until it is planned
  std::string plan_hash;                 // the plan itself is in the store
  StepPrediction predicted;              // by the plan; empty: not known
  DataCheck data_check = DataCheck::kWaits;
  std::string checked_by;       // a worker
  std::string check_problem;    // why its data files could not be checked yet, where workers tried
  uint32_t calls = 1;           // of users who wait until it is accepted
  bool accepted = false;        // nothing is wrong with it as far as could be checked: it goes to the store
  bool durable = false;         // it is in the store
  bool removing = false;        // a user removes it: it cannot be retried
  bool removing_files = false;  // with its folders

  JobState state = PENDING;
  std::string reason;      // why it FAILED, or why its last attempt ended
  std::string unassigned;  // why the assignment policy did not start it, where that is not a want of slots
  bool held = false;
  absl::Time submitted, started, ended;
  absl::Duration not_before;  // monotonic: the backoff before the next attempt
  absl::Duration backoff;
  absl::Duration running;  // of ended attempts
  // Where its checkpoints are: the OutputRoot, as text, of the workers of its newest attempt, and their names. Empty
  // without checkpoints.
  std::string home;
  std::vector<std::string> home_workers;
  bool has_checkpoint = false;  // a rank reported one that it wrote or went on from
  // Where its weights are, if they are below an output root: the worker that found them, and its output_id, empty where
  // that was not known. Both empty: its ranks may be anywhere.
  std::string input_worker, input_root;
  absl::Duration home_usable;  // monotonic: the last time when the job did not have to wait for its home
  RestartHistory history;
  FailedStarts failed_starts;
  Attempt attempt;  // the newest; epoch 0: none yet
  JobProgress progress;
  std::set<std::string> artifacts;  // at most kMaxArtifacts (proto/message_limits.h)
  uint64_t artifacts_left_out = 0;  // more there are
  uint64_t replaced_by = 0;         // number of the job whose results have taken the place of these; 0: none
};

bool IsFinal(JobState state);
bool HasEnded(RankState state);

// True where only slots, and its checkpoints, can keep the job from starting now.
bool MayStart(const JobRecord& job, absl::Duration now);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_RECORD_H_
