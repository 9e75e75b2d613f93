// Every decision about jobs: values in, decisions out. It holds no thread, no socket and no file, and reads no clock but
// the ones given to it, so tests drive it through any history.
//
//   CoordinationService service(options);
//   service.WorkerConnected(/*connection=*/1, hello);
//   ADJOIN_ASSIGN_OR_RETURN(Submitted submitted, service.Submit({.spec = spec, .plan_function = plan}));
//   StoreChanges changes = service.TakeChanges();             // write them; then service.Durable(...), and
//   for (const Action& action : service.TakeActions()) ...    // send action.message to connection action.to
//   service.Tick();                                           // often: deadlines pass here
//
// A job is one attempt after another; each has an epoch that no earlier one had, and what speaks of another epoch is ignored. The
// first failure of an attempt ends it on all ranks. Whether another one follows is DecideRestart's to say; it starts only when
// every daemon of the attempt before has said that no process of it is left, or came back as another incarnation, or the
// lease ran out through which its ranks may live without being heard of. So nothing runs twice.
//
// A worker daemon is known by its name and incarnation; its connection may break and come again. What it runs is in its
// hello then, and is compared with what it should run. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_COORDINATION_SERVICE_H_
#define ADJOIN_COORDINATOR_DECISIONS_COORDINATION_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/cluster_snapshot.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/progress_watch.h"
#include "coordinator/placement/placement.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct CoordinationOptions {
  std::function<absl::Time()> wall_clock;           // for people
  std::function<absl::Duration()> monotonic_clock;  // for deadlines; from any fixed start
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration suspect_after = absl::Seconds(3);  // without a word, a daemon gets nothing new
  absl::Duration dead_after = absl::Seconds(10);    // likewise, its attempts have ended
  absl::Duration reattach = absl::Seconds(30);      // for daemons to connect after the coordinator's own start
  absl::Duration lease = absl::Seconds(120);        // through which ranks run on without the coordinator
  absl::Duration lease_margin = absl::Seconds(5);   // for the kill when it ends, and for clocks that differ
  absl::Duration start_timeout = absl::Seconds(120);  // for all ranks of an attempt to be ready
  absl::Duration probe_timeout = absl::Seconds(30);
  absl::Duration peer_failure_grace = absl::Seconds(1);
  absl::Duration home_grace = absl::Minutes(10);    // for nodes that have a job's checkpoints, while others could take the job
  ProgressLimits progress;
  uint32_t restarts_without_progress = 3;  // in a row end a job
  size_t max_queued_jobs = 100000;         // that wait; more are refused
  size_t keep_jobs = 1000;  // that have ended; beyond that the oldest are forgotten
};

// A message for a daemon, or (close) the end of its connection.
struct Action {
  ConnectionId to = 0;
  bool close = false;
  bool urgent = false;      // follows from nothing that must be in the store first
  bool sent_early = false;  // the hub's own: it could not wait for the store
  uint64_t plan_of = 0;     // a job's number: message.start_ranks wants its plan
  CoordinatorMessage message;
};

// A line for the log, and the job that it is about, if any.
struct Note {
  std::string text;
  std::string job_id = {};
  uint64_t epoch = 0;
};

// A plan to be made, without any lock; the result goes to Planned.
struct PlanRequest {
  std::string job_id;
  PlanFunction plan_function;
  std::vector<DatasetSize> sizes;
};

struct NewJob {
  JobSpec spec;
  PlanFunction plan_function;
  PlaceFunction place_of;      // may be empty
  std::vector<ModelTensor> model;  // the parameters, where the job's weights come from a file
  std::string source, file;    // what the user wrote, to be kept
  std::string owner;
  int32_t priority = 0;
  std::string idempotency_key;  // empty: none
  bool any_folder = false;      // an admin's: also one with results of somebody else
};

struct Submitted {
  std::string job_id;
  bool existed = false;  // the key was this job's already
};

// Whether a submitted job was accepted yet; `refused` is set when it was not, and the job is then unknown.
enum class Admission { kUndecided, kAccepted, kRefused };

// Whether the caller may change this job: an error that says why not.
using JobCheck = std::function<absl::Status(const JobRecord& job)>;
inline absl::Status AnybodyMay(const JobRecord&) { return absl::OkStatus(); }

class CoordinationService {
 public:
  explicit CoordinationService(CoordinationOptions options);

  // What a store had, before anything else is called. `functions` gives a job's plan and place functions from what was submitted.
  struct SpecFunctions {
    PlanFunction plan_function;
    PlaceFunction place_of;
  };
  void Restore(StoredState state, const std::function<SpecFunctions(const StoredSubmission&)>& functions);

  // What has changed since the last call.
  StoreChanges TakeChanges();
  // What is to be sent since the last call, in order. Actions that are not urgent only once the changes are in the store.
  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }
  std::vector<PlanRequest> TakePlanRequests() { return std::exchange(plan_requests_, {}); }
  // What has happened since the last call, for the coordinator's own log.
  std::vector<Note> TakeNotes() { return std::exchange(notes_, {}); }
  // Ids of the jobs forgotten since the last call.
  std::vector<std::string> TakeForgotten() { return std::exchange(forgotten_, {}); }

  // These submissions are in the store now: their jobs may start.
  void Durable(const std::vector<StoredSubmission>& submissions);
  // These could not be written, and are refused with `reason`.
  void Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason);

  // With a worker at hand the job is admitted only after one has checked the data files (see AdmissionOf), each one job at a
  // time; without one it is accepted, and checked as soon as a worker connects.
  // Errors: kAlreadyExists (the key is another spec's), kPermissionDenied (the output_dir, or what it reads of another job, is another owner's),
  // kResourceExhausted (so many wait already).
  absl::StatusOr<Submitted> Submit(NewJob job);
  void Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned);
  // Whoever submitted it waits no longer: it is forgotten unless it was accepted.
  void Abandon(const std::string& job_id);
  // kRefused: `*reason` says why.
  Admission AdmissionOf(const std::string& job_id, absl::Status* reason);

  // While it is not, nothing is started.
  void SetStoreWritable(bool writable);

  // Errors of all: those of JobTable::Resolve; what `may` returns; kFailedPrecondition (not possible in the job's state).
  absl::StatusOr<JobState> Cancel(const std::string& reference, const JobCheck& may = AnybodyMay);
  absl::StatusOr<JobState> Retry(const std::string& reference, const JobCheck& may = AnybodyMay);
  absl::Status Hold(const std::string& reference, bool held, const JobCheck& may = AnybodyMay);

  // Errors: kInvalidArgument (no name, no slots), kAlreadyExists (another daemon of this name is connected and well).
  absl::Status WorkerConnected(ConnectionId connection, const WorkerHello& hello);
  void WorkerDisconnected(ConnectionId connection, const std::string& why);
  // Any message of a daemon but hello and log lines. Unknown connections and other epochs are ignored.
  void WorkerSaid(ConnectionId connection, const WorkerMessage& message);
  // Whether `connection` runs, or just ran, this attempt of the job: its log lines count.
  bool Owns(ConnectionId connection, const std::string& job_id, uint64_t epoch);
  // Lets deadlines pass. True where that changed anything.
  bool Tick();

  // For users. Errors: those of JobTable::Resolve.
  ListJobsResponse List();
  absl::StatusOr<DescribeJobResponse> Describe(const std::string& reference);
  absl::StatusOr<JobSummary> Summary(const std::string& reference);
  // Whether the job has ended and no daemon has a process of it any more: nothing new will come.
  bool Settled(const std::string& job_id);

  struct ArtifactSource {
    ConnectionId connection = 0;
    std::string worker;
    std::string job_id;
    std::string owner;
    std::string output_dir;
    uint64_t epoch = 0;
  };
  // Where the named result of a job lies now. Errors: kInvalidArgument (a name that is no plain file name), kNotFound (the
  // job has no such artifact; lists those it has), kFailedPrecondition (a later job has the same output folder),
  // kUnavailable (the worker that holds it is not connected).
  absl::StatusOr<ArtifactSource> FindArtifact(const std::string& reference, const std::string& name);

  ClusterSnapshot Snapshot();  // without store_commits

 private:
  // Since the coordinator's start.
  struct Counters {
    uint64_t submitted = 0;
    std::map<std::string, uint64_t> restarts;  // by cause
    double goodput_seconds = 0;                // of attempts that got further than any before, and of those that succeeded
    double lost_seconds = 0;                   // of the others
  };

  struct Worker {
    WorkerHello hello;             // without the attempts
    ConnectionId connection = 0;   // 0: none now
    absl::Duration last_heard;
    bool attached = false;         // since the coordinator's start
    bool draining = false;
    bool dead = false;
    bool checks = false;           // it was asked to check a job's data
    std::map<uint64_t, int> held;  // slots, by job number
    int FreeSlots() const;
  };

  absl::Duration Now() const { return options_.monotonic_clock(); }
  void Send(const std::string& worker, uint64_t epoch, CoordinatorMessage message, bool urgent = false);
  void Event(const JobRecord& job, const std::string& kind, const std::string& text);
  void Changed(const JobRecord& job) { changed_jobs_.insert(job.number); }
  void AttemptChanged(const JobRecord& job) { changed_attempts_.insert(job.number); }

  // Submission: coordination_service.cc.
  absl::Status CheckCheckpoints(const NewJob& submitted) const;
  void CheckData(JobRecord& job);
  void CheckWaitingJobs();
  void AskForCheck(JobRecord& job, const std::string& worker);
  void ForgetChecks(const std::string& lost_worker);
  void AskForPlan(JobRecord& job, std::vector<DatasetSize> sizes);
  void OnProbeResult(const std::string& worker, const ProbeResult& result);
  void EndCheck(JobRecord& job, const absl::Status& failure);
  void Accept(JobRecord& job);
  void Refuse(const JobRecord& job, const absl::Status& reason);
  void RestoreJob(const StoredJob& row, StoredSubmission submission, const StoredAttempt* attempt);
  void ForgetOldJobs();
  absl::StatusOr<JobRecord*> Resolve(const std::string& reference, const JobCheck& may);

  // Workers: coordination_workers.cc.
  bool Usable(const Worker& worker) const;
  void OnReport(const std::string& worker, const AttemptReport& report);
  void OnLostMessages(const std::string& worker, const WorkerHello& hello);
  void OnHeartbeat(const std::string& worker, const Heartbeat& heartbeat);
  void OnNewIncarnation(const std::string& worker, const WorkerHello& hello, absl::Duration last_heard);
  void OnDead(const std::string& worker, const std::string& why);
  void AcknowledgeEnd(const std::string& worker, const std::string& job_id, uint64_t epoch);
  void Release(JobRecord& job, const std::string& worker, const std::string& event);
  void ForgivePause();
  bool TickWorkers();
  bool TickLeases();
  bool TickChecks();
  std::string RanksOn(const JobRecord& job, const std::string& worker) const;

  // Attempts: coordination_attempts.cc.
  JobRecord* AttemptOf(const std::string& worker, const std::string& job_id, uint64_t epoch);
  RankRecord* RankOf(const std::string& worker, JobRecord& job, uint32_t rank);
  void Schedule();
  bool MayStart(const JobRecord& job) const;
  std::vector<FreeSlots> SlotsFor(const JobRecord& job) const;
  std::vector<FreeSlots> AllSlots(const JobSpec& spec) const;
  bool CouldEverStart(const JobRecord& job) const;
  int BackfillBudgetBehind(const JobRecord& head) const;
  void Start(JobRecord& job, const std::vector<std::string>& of_rank);
  void SendStart(const JobRecord& job, const std::string& worker);
  void SendConnect(const JobRecord& job, const std::string& worker);
  void SendStop(const JobRecord& job, const std::string& worker, const std::string& reason);
  void OnRankReady(JobRecord& job, RankRecord& rank, const RankReady& ready);
  void ConnectIfReady(JobRecord& job);
  void OnRankUpdate(JobRecord& job, uint32_t number, RankRecord& rank, const RankUpdate& update);
  void OnRankEnded(JobRecord& job, RankRecord& rank, const RankEnded& ended);
  void OnCleared(JobRecord& job, const std::string& worker);
  void EndAttempt(JobRecord& job, EndCause cause, const std::string& reason);
  void CloseAttempt(JobRecord& job, const std::string& reason);
  void CountTime(JobRecord& job, bool useful);
  void End(JobRecord& job, JobState state, const std::string& reason);
  void EndAfterPeerFailure(JobRecord& job);
  bool TickAttempts();
  std::string LateRanks(const JobRecord& job) const;
  std::vector<std::string> RankNames(const JobRecord& job) const;

  // Where checkpoints lie: coordination_homes.cc.
  std::string HomeOf(const JobRecord& job) const;
  void SettleHome(JobRecord& job);
  void KeepHome(JobRecord& job);
  void LeaveHome(JobRecord& job);
  void OutputKnown(const std::string& worker, const std::string& output_id);
  bool LacksHome(const JobRecord& job) const;
  bool TickHomes();
  std::string HomeReason(const JobRecord& job) const;

  // Queries: coordination_queries.cc.
  JobSummary Summarize(const JobRecord& job, uint32_t queue_position);
  uint32_t QueuePosition(const JobRecord& job);
  std::string PendingReason(const JobRecord& job, uint32_t queue_position);
  std::string StateOf(const Worker& worker) const;

  const CoordinationOptions options_;
  JobTable jobs_{1};
  std::map<std::string, Worker> workers_;
  std::map<ConnectionId, std::string> worker_of_;
  struct Refusal {
    absl::Status reason;
    absl::Duration forget_at;
  };
  std::map<std::string, Refusal> refused_;  // by job id
  uint64_t store_id_ = 0;
  uint64_t last_epoch_ = 0;
  uint64_t last_event_ = 0;
  bool store_writable_ = true;
  absl::Duration store_failed_at_;
  absl::Duration last_tick_ = absl::InfiniteDuration();  // none yet
  std::set<uint64_t> orphans_;  // jobs that have a holder with a lease_end
  std::set<uint64_t> homed_;    // jobs that have a checkpoint
  absl::Duration homes_looked_at_ = -absl::InfiniteDuration();
  bool schedule_ = false;  // something changed that may let a job start
  absl::Duration wake_at_ = absl::InfiniteDuration();  // a job's backoff is over then
  std::string blocked_head_;  // the first job of the queue that could not start for want of slots; "" where there is none
  std::set<uint64_t> unchecked_, asked_;  // jobs whose data check waits, and is under way
  std::set<uint64_t> changed_jobs_, changed_attempts_;
  StoreChanges changes_;
  std::vector<Action> actions_;
  std::vector<PlanRequest> plan_requests_;
  std::vector<Note> notes_;
  std::vector<std::string> forgotten_;
  Counters counters_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_COORDINATION_SERVICE_H_
