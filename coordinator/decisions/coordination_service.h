// Every decision about jobs: values in, decisions out. It has no thread, no socket and no file, and reads no clock but
// the ones given to it, so tests drive it through any history.
//
//   CoordinationService service(options);
//   service.WorkerConnected(/*connection=*/1, hello);
//   ADJOIN_ASSIGN_OR_RETURN(Submitted submitted, service.Submit({.spec = spec, .written = written}));
//   StoreChanges changes = service.TakeChanges();             // write them; then service.Durable(...), and
//   for (const Action& action : service.TakeActions()) ...    // send action.message to connection action.to
//   service.Tick();                                           // often: deadlines pass here
//
// A job is one attempt after another. Each attempt has an epoch that no earlier one had, and a message of another
// epoch is ignored. The first failure of an attempt ends it on all ranks; DecideRestart decides whether another one
// follows. That one starts only when every daemon of the attempt before has reported that no process of it is left,
// or came back as another incarnation, or the lease ran out through which its ranks may live without being heard of.
// So nothing runs twice.
//
// A worker daemon is known by its name and incarnation; its connection may break and come again. Its hello then has all
// that it runs, which is compared with what it should run. Not thread-safe.
//
// The parts own the state, and each names in its constructor the parts that it may touch:
//
//   Outbox            what is decided and not taken yet      JobTable          the jobs, in the order of the queue
//   WorkerTable       daemons, their slots                   CheckpointHomes   where jobs with checkpoints have to run
//   JobQueue          which job starts next                  Leases            daemons that may still have processes
//   Attempts          ranks, ends, restarts                  Submissions       data checks, plans, admission
//   JobRemovals       jobs that a user removes               ClusterReport     answers to users; changes nothing
//   JobTraces         traces that a user asks for
#ifndef ADJOIN_COORDINATOR_DECISIONS_COORDINATION_SERVICE_H_
#define ADJOIN_COORDINATOR_DECISIONS_COORDINATION_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/attempts.h"
#include "coordinator/decisions/checkpoint_homes.h"
#include "coordinator/decisions/cluster_report.h"
#include "coordinator/decisions/cluster_snapshot.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_queue.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_removals.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/job_traces.h"
#include "coordinator/decisions/leases.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/rate_book.h"
#include "coordinator/decisions/start_failures.h"
#include "coordinator/decisions/submissions.h"
#include "coordinator/decisions/worker_table.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Returns an error that tells why the caller may not change this job.
using JobCheck = std::function<absl::Status(const JobRecord& job)>;
inline absl::Status AnybodyMay(const JobRecord&) { return absl::OkStatus(); }

class CoordinationService {
 public:
  explicit CoordinationService(CoordinationOptions options);
  CoordinationService(const CoordinationService&) = delete;
  CoordinationService& operator=(const CoordinationService&) = delete;

  // Takes what a store had, before any other method is called. `place_of` gives a job's place function from its
  // submission; it may be empty.
  using PlaceFunctions = std::function<PlaceFunction(const StoredSubmission&)>;
  void Restore(StoredState state, const PlaceFunctions& place_of = nullptr);

  // The rows that changed since the last call.
  StoreChanges TakeChanges() { return outbox_.TakeChanges(jobs_); }
  // What is to be sent since the last call, in order. Actions that are not urgent only once the changes are in the
  // store.
  std::vector<Action> TakeActions() { return outbox_.TakeActions(); }
  std::vector<PlanRequest> TakePlanRequests() { return outbox_.TakePlanRequests(); }
  // Ids of jobs whose plans nobody needs any more. Ask after TakePlanRequests.
  std::vector<std::string> TakeDroppedPlans() { return outbox_.TakeDroppedPlans(); }
  // What has happened since the last call, for the coordinator's own log.
  std::vector<Note> TakeNotes() { return outbox_.TakeNotes(); }
  // Ids of the jobs forgotten since the last call.
  std::vector<std::string> TakeForgotten() { return outbox_.TakeForgotten(); }
  // The jobs that those who follow them may want to look at, by id.
  std::map<std::string, JobChange> TakeTouched() { return outbox_.TakeTouched(); }

  // These submissions are in the store now: their jobs may start.
  void Durable(const std::vector<StoredSubmission>& submissions);
  // These could not be written, and are refused with `reason`.
  void Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason);

  // Returns a number for a job whose spec may name no output_dir, so that its plan can name the job's own folder
  // (OwnOutputFolder): give it to Submit, or back where no Submit follows. No other job gets it.
  uint64_t ReserveNumber() { return submissions_.ReserveNumber(); }
  void GiveBackNumber(uint64_t number) { submissions_.GiveBackNumber(number); }
  // With a worker at hand the job is admitted only after one has checked the data files (see AdmissionOf), each one
  // job at a time; without one it is accepted, and checked as soon as a worker connects.
  // Errors: kAlreadyExists (the key is another spec's), kInvalidArgument (its name is an id's), kPermissionDenied (the
  // output_dir, or what it reads of another job, is another owner's), kFailedPrecondition (its ranks share files, and
  // too few of the workers do), kResourceExhausted (so many wait already).
  absl::StatusOr<Submitted> Submit(NewJob job);
  void Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned);
  // A user who submitted the job waits no longer. It is refused with `reason` unless it was accepted, or another call
  // with its idempotency key still waits for it.
  void Abandon(const std::string& job_id, const absl::Status& reason);
  // kAccepted: the job is in the store. kRefused: sets `*reason`.
  Admission AdmissionOf(const std::string& job_id, absl::Status* reason);

  // While the store cannot be written, no job starts, and whoever asks is told why.
  void SetStoreHealth(const absl::Status& health);
  // The store refuses a row of this job, whatever is tried: the job fails.
  void FailUnwritable(uint64_t number, const absl::Status& why);

  // Errors of all three: those of JobTable::ResolveToChange; what `may` returns; kFailedPrecondition (not possible in
  // the job's state).
  absl::StatusOr<JobState> Cancel(const JobReference& reference, const JobCheck& may = AnybodyMay);
  absl::StatusOr<JobState> Retry(const JobReference& reference, const JobCheck& may = AnybodyMay);
  absl::Status Hold(const JobReference& reference, bool held, const JobCheck& may = AnybodyMay);

  // Has a job that runs trace its next steps. Errors also: those of JobTraces::Ask. Returns the job's id.
  absl::StatusOr<std::string> Trace(const JobReference& reference, const TraceOrder& order,
                                    const JobCheck& may = AnybodyMay);

  // Between the two, a worker removes the job's files where `files` asks for it, and the job cannot be retried. Then
  // the job is forgotten, or stays. Errors: those of JobTable::ResolveToChange, where ended jobs count; what `may`
  // returns; those of JobRemovals::Begin.
  absl::StatusOr<JobRemoval> BeginRemoval(const JobReference& reference, bool files, const JobCheck& may = AnybodyMay);
  void EndRemoval(const std::string& job_id, bool forget);

  // Errors: kInvalidArgument (no name, no slots), kAlreadyExists (another daemon of this name is connected and well).
  absl::Status WorkerConnected(ConnectionId connection, const WorkerHello& hello);
  void WorkerDisconnected(ConnectionId connection, const std::string& why);
  // Any message of a daemon but hello and log lines. Unknown connections and other epochs are ignored.
  void WorkerSaid(ConnectionId connection, const WorkerMessage& message);
  // True where `connection` runs, or just ran, this attempt of the job, so that its log lines are the job's.
  bool Owns(ConnectionId connection, const std::string& job_id, uint64_t epoch);
  // Lets deadlines pass. True where that changed anything.
  bool Tick();

  // For users. Errors: those of JobTable::Resolve.
  // Continue makes a page of a list, or describes a job, in steps: until it returns true.
  bool Continue(JobPage& page) { return report_.Continue(page); }
  bool Continue(JobDescription& made) { return report_.Continue(made); }
  // Without a header.
  ReadRatesResponse Rates() const { return rates_.All(); }
  // For predictions of jobs whose nodes are not chosen yet (RateBook::OfMost).
  std::shared_ptr<const RateTable> RatesOfMost() const { return rates_.OfMost(); }
  // Why the job waits may be as it was a tenth of a second ago.
  absl::StatusOr<JobSummary> RecentSummary(const JobReference& reference) { return report_.RecentSummary(reference); }
  // True where the job has ended, and no daemon has a process of it any more: nothing new will come.
  bool Settled(const std::string& job_id);

  using ArtifactSource = adjoin::ArtifactSource;
  // Finds the worker that has the named result of a job, or its checkpoints. `request.job_id` is not looked at.
  // Errors: kInvalidArgument (a name that is no plain file name), kNotFound (the job has no such artifact; lists those
  // it has), kFailedPrecondition (a later job has replaced it; the job writes no checkpoints), kUnavailable (the worker
  // that holds it is not connected).
  absl::StatusOr<ArtifactSource> FindArtifact(const JobReference& reference, const GetArtifactRequest& request) {
    return report_.FindArtifact(reference, request);
  }

  ClusterSnapshot Snapshot() { return report_.Snapshot(); }
  bool Continue(SnapshotInSteps& made) { return report_.Continue(made); }

 private:
  void Schedule();
  absl::StatusOr<JobRecord*> Resolve(const JobReference& reference, const JobCheck& may, bool even_ended = false);
  void OnHeartbeat(const std::string& worker, const Heartbeat& heartbeat);
  // How far apart each rank's reports of its progress are to be; 0: as it comes.
  absl::Duration BetweenProgress() const;
  void LogCondition(const WorkerRecord& worker);
  void OnLost(const std::string& worker, const std::string& why);
  void ForgivePause();
  bool TickWorkers();

  const CoordinationOptions options_;
  Outbox outbox_{options_};
  JobTable jobs_{1};
  WorkerTable workers_{options_, outbox_};
  RateBook rates_;
  CheckpointHomes homes_{options_, jobs_, workers_, outbox_};
  StartFailures starts_{options_, workers_, homes_, outbox_};
  JobQueue queue_{options_, jobs_, workers_, homes_, starts_, outbox_};
  Leases leases_{options_, jobs_, workers_, queue_, outbox_};
  Attempts attempts_{options_, jobs_, workers_, homes_, starts_, queue_, leases_, outbox_};
  Submissions submissions_{options_, jobs_, workers_, queue_, outbox_};
  JobRemovals removals_{jobs_, workers_, submissions_};
  JobTraces traces_{options_, workers_, outbox_};
  ClusterReport report_{{options_, jobs_, workers_, homes_, queue_, submissions_, attempts_}};
  absl::Duration last_tick_ = absl::InfiniteDuration();  // none yet
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_COORDINATION_SERVICE_H_
