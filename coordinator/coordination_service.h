// Every decision about jobs: values in, decisions out. It holds no thread, no socket and no file, and reads no clock but
// the one given to it, so tests drive it through any history.
//
//   CoordinationService service(options);
//   service.WorkerConnected(/*connection=*/1, hello);
//   std::string id = service.Submit(spec, plan_function);
//   for (const Action& action : service.TakeActions()) ...   // send action.message to connection action.to
//   service.Tick();                                          // often: deadlines pass here
//
// A job is one or more attempts; each attempt has an epoch that no earlier one had, and what speaks of another epoch is
// ignored. The first failure of an attempt decides: the job ends at once with a reason that names the rank, and every
// daemon of the attempt is told to stop it. Its slots are free again only when each daemon has said that no process of the
// attempt is left, or is itself lost. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_COORDINATION_SERVICE_H_
#define ADJOIN_COORDINATOR_COORDINATION_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct CoordinationOptions {
  std::function<absl::Time()> wall_clock;           // for people
  std::function<absl::Duration()> monotonic_clock;  // for deadlines; from any fixed start
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration worker_timeout = absl::Seconds(10);  // without a word, a daemon is lost
  absl::Duration start_timeout = absl::Seconds(120);  // for all ranks of an attempt to be ready
  absl::Duration probe_timeout = absl::Seconds(30);
  absl::Duration peer_failure_grace = absl::Seconds(1);
  uint64_t first_job_number = 1;
  size_t keep_jobs = 1000;  // that have ended; beyond that the oldest are forgotten
};

// A message for a daemon, or (close) the end of its connection.
struct Action {
  ConnectionId to = 0;
  bool close = false;
  CoordinatorMessage message;
};

// Whether a submitted job was accepted yet; `refused` is set when it was not, and the job is then unknown.
enum class Admission { kUndecided, kAccepted, kRefused };

class CoordinationService {
 public:
  explicit CoordinationService(CoordinationOptions options);

  // What is to be sent since the last call, in order.
  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }
  // What has happened since the last call, a line each, for the coordinator's own log.
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }
  // Ids of the jobs forgotten since the last call.
  std::vector<std::string> TakeForgotten() { return std::exchange(forgotten_, {}); }

  // Returns the new job's id. With a worker at hand the job is admitted only after that worker has checked the data files
  // (see AdmissionOf); without one it is accepted, and checked as soon as a worker connects.
  std::string Submit(const JobSpec& spec, PlanFunction plan_function, PlaceFunction place_of = nullptr);
  // kRefused: `*reason` says why. Asking for a refused job forgets it.
  Admission AdmissionOf(const std::string& job_id, absl::Status* reason);
  // Errors: those of JobTable::Resolve.
  absl::StatusOr<JobState> Cancel(const std::string& reference);

  // Errors: kInvalidArgument (no name, no slots), kAlreadyExists (another daemon of this name is connected).
  absl::Status WorkerConnected(ConnectionId connection, const WorkerHello& hello);
  void WorkerLost(ConnectionId connection, const std::string& why);
  // It lives: any message says so.
  void WorkerHeard(ConnectionId connection);
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
    std::string output_dir;
    uint64_t epoch = 0;
  };
  // Where the named result of a job lies now. Errors: kInvalidArgument (a name that is no plain file name), kNotFound (the
  // job has no such artifact; lists those it has), kFailedPrecondition (a later job has the same output folder),
  // kUnavailable (the worker that holds it is not connected).
  absl::StatusOr<ArtifactSource> FindArtifact(const std::string& reference, const std::string& name);

 private:
  struct Worker {
    WorkerHello hello;
    absl::Duration last_heard;
    std::map<uint64_t, int> held;  // slots, by job number
    int FreeSlots() const;
  };

  absl::Duration Now() const { return options_.monotonic_clock(); }
  void Send(ConnectionId to, uint64_t epoch, CoordinatorMessage message);

  // Data check and admission.
  void CheckData(JobRecord& job);
  void CheckWaitingJobs();
  void OnProbeResult(ConnectionId connection, const ProbeResult& result);
  void EndCheck(JobRecord& job, const absl::Status& failure);

  // Attempts.
  JobRecord* AttemptOf(ConnectionId connection, const std::string& job_id, uint64_t epoch);
  RankRecord* RankOf(ConnectionId connection, JobRecord& job, uint32_t rank);
  void Schedule();
  void Start(JobRecord& job, const std::vector<ConnectionId>& of_rank);
  void OnRankReady(JobRecord& job, RankRecord& rank, const RankReady& ready);
  void OnRankUpdate(JobRecord& job, uint32_t number, RankRecord& rank, const RankUpdate& update);
  void OnRankEnded(JobRecord& job, RankRecord& rank, const RankEnded& ended);
  void OnCleared(JobRecord& job, ConnectionId connection);
  std::string LateRanks(const JobRecord& job) const;
  void End(JobRecord& job, JobState state, const std::string& reason);
  void ForgetOldJobs();

  JobSummary Summarize(const JobRecord& job, uint32_t queue_position);
  uint32_t QueuePosition(const JobRecord& job);
  std::string PendingReason(const JobRecord& job, uint32_t queue_position);

  const CoordinationOptions options_;
  JobTable jobs_;
  std::map<ConnectionId, Worker> workers_;
  std::map<std::string, absl::Status> refused_;  // by job id
  uint64_t last_epoch_ = 0;
  std::vector<Action> actions_;
  std::vector<std::string> notes_;
  std::vector<std::string> forgotten_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_COORDINATION_SERVICE_H_
