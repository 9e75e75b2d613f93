// What CoordinationService has decided and its caller has not taken yet: rows for the store, messages to daemons,
// plans to be made, lines for the log.
//
//   Outbox outbox(options);
//   outbox.Event(job, "started", "on worker-0 (2)");
//   StoreChanges changes = outbox.TakeChanges(jobs);           // the event, and a row of each job that changed
//
// Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_OUTBOX_H_
#define ADJOIN_COORDINATOR_DECISIONS_OUTBOX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/age_clock.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// A message for a daemon, or (close) the end of its connection.
struct Action {
  ConnectionId to = 0;
  bool close = false;
  bool urgent = false;      // follows from nothing that must be in the store first
  bool sent_early = false;  // set by the hub where the message could not wait for the store
  uint64_t plan_of = 0;     // a job's number: its plan is to be put into message.start_ranks
  CoordinatorMessage message;
};

// How much of a job has changed, for those who follow it.
enum class JobChange {
  kProgress,  // may wait for a moment, so that many changes are seen at once
  kState,
};

// A line for the log, and the job that it is about, if any.
struct Note {
  std::string text;
  std::string job_id = {};
  uint64_t epoch = 0;
  // The number of a job that is not in the store yet: the line is true when it is, and dropped where it is refused.
  uint64_t submission = 0;
};

// A plan to be made, without any lock; the result goes to CoordinationService::Planned.
struct PlanRequest {
  std::string job_id, owner;
  std::shared_ptr<const SubmittedSpec> written;
  std::vector<DatasetSize> sizes;
  std::string output_dir;
  std::string weights;  // where those of weights.from_job are, below the output root; "": it has none
  std::optional<FileSums> weights_file = std::nullopt;
};

class Outbox {
 public:
  // `options` outlives the outbox.
  explicit Outbox(const CoordinationOptions& options) : options_(options) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // The number of the last event in the store. Call it before the first event.
  void Restore(uint64_t last_event) { last_event_ = last_event; }

  // For the store. A job that is not accepted gets no row.
  void JobChanged(const JobRecord& job) {
    changed_jobs_.insert(job.number);
    TouchedInStore(job, JobChange::kState);
  }
  void AttemptChanged(const JobRecord& job) {
    changed_attempts_.insert(job.number);
    TouchedInStore(job, JobChange::kProgress);
  }
  // For those who follow the job, not for the store.
  void Touched(const JobRecord& job, JobChange change);
  void Submitted(StoredSubmission row) { changes_.submissions.push_back(std::move(row)); }
  void Planned(StoredPlan row) { changes_.plans.push_back(std::move(row)); }
  void KeyChanged(StoredKey row) { changes_.keys.push_back(std::move(row)); }
  void FolderChanged(StoredFolder row) { changes_.folders.push_back(std::move(row)); }
  void EpochGiven(uint64_t epoch) { changes_.last_epoch = epoch; }
  void NumberGiven(uint64_t number) { changes_.last_job = number; }
  void AgeMarked(const AgeMark& mark) { changes_.age = mark; }
  // The job is erased from the store, and its log with it.
  void Forget(const JobRecord& job);
  // Drops what was to be stored of a job that is refused.
  void Withdraw(const JobRecord& job);

  // For the history of a job and for the log.
  void Event(const JobRecord& job, const std::string& kind, const std::string& text);
  void Log(std::string text) { notes_.push_back({std::move(text)}); }

  void Send(Action action) { actions_.push_back(std::move(action)); }
  void AskForPlan(PlanRequest request) { plan_requests_.push_back(std::move(request)); }
  // Nobody needs the plan that was asked for.
  void DropPlan(const std::string& job_id) { dropped_plans_.push_back(job_id); }

  // Everything since the last call, in order.
  StoreChanges TakeChanges(JobTable& jobs);
  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }
  std::vector<PlanRequest> TakePlanRequests() { return std::exchange(plan_requests_, {}); }
  // Ids of the jobs; their requests may have been taken or not.
  std::vector<std::string> TakeDroppedPlans() { return std::exchange(dropped_plans_, {}); }
  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }
  std::vector<std::string> TakeForgotten() { return std::exchange(forgotten_, {}); }
  // What those who follow jobs may want to look at, by id.
  std::map<std::string, JobChange> TakeTouched() { return std::exchange(touched_, {}); }

 private:
  // Nobody may hear of a job that is not in the store yet: who waits for it is told when it is there, or refused.
  void TouchedInStore(const JobRecord& job, JobChange change) {
    if (job.durable) Touched(job, change);
  }

  const CoordinationOptions& options_;
  uint64_t last_event_ = 0;
  std::set<uint64_t> changed_jobs_, changed_attempts_;  // numbers
  std::map<std::string, JobChange> touched_;            // by id
  StoreChanges changes_;
  std::vector<Action> actions_;
  std::vector<PlanRequest> plan_requests_;
  std::vector<std::string> dropped_plans_;  // ids
  std::vector<Note> notes_;
  std::vector<std::string> forgotten_;  // ids
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_OUTBOX_H_
