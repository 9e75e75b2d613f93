// Jobs from their submission until they are in the store with a plan: the check of their data files by a worker, the
// plan, and whether they are accepted.
//
//   Submissions submissions(options, jobs, workers, queue, outbox);
//   ADJOIN_ASSIGN_OR_RETURN(Submitted submitted, submissions.Submit({.spec = spec, .written = written}));
//   submissions.OnProbeResult("worker-0", result);               // then the plan is asked for, and comes with Planned
//
// With a worker at hand a job is accepted only after one has checked its data files (data_checks.h). Without one the
// job is accepted at once, and checked as soon as a worker connects. A job that reads no file may bring its plan with
// it, and is accepted with it. One that reads files may bring the plan for the sizes that they are expected to have: it
// is planned again only where the worker finds others. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_SUBMISSIONS_H_
#define ADJOIN_COORDINATOR_DECISIONS_SUBMISSIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/age_clock.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/data_checks.h"
#include "coordinator/decisions/idempotency_keys.h"
#include "coordinator/decisions/job_queue.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/worker_table.h"
#include "coordinator/store/records.pb.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// The output folder of a job whose spec names none, unless somebody else has it: "job-17".
std::string OwnOutputFolder(uint64_t number);

struct NewJob {
  JobSpec spec;
  std::shared_ptr<const SubmittedSpec> written;  // what the user sent; to be stored; null: as `spec` says
  PlaceFunction place_of;                        // may be empty
  std::vector<ModelTensor> model;                // the parameters, where the job's weights come from a file
  // Made for OwnOutputFolder(number) where the spec names no folder; absent: it is asked for.
  std::optional<PlannedJob> plan;
  // With `plan`, of a job that reads files: the plan is that of files of these sizes, and is used where a worker finds
  // the same. Empty: the job reads no file.
  std::vector<DatasetSize> expected_sizes;
  uint64_t number = 0;  // that ReserveNumber returned; 0: none
  std::string owner;
  int32_t priority = 0;
  std::string idempotency_key;  // empty: none
  std::string spec_hash;        // SpecHash(spec), which takes a while; empty: it is computed where it is needed
  bool any_folder = false;      // an admin's job may also use folders with results of other owners
  bool replace_output = false;  // what an earlier job left in its output_dir may be replaced
};

// The longest plan that a job brings with expected sizes, and how many of them are kept in memory during checks: jobs
// with others are planned again.
inline constexpr size_t kMaxExpectedPlanBytes = size_t{64} << 10;
inline constexpr size_t kMostExpectedPlans = 1000;

struct Submitted {
  std::string job_id;
  bool existed = false;  // the key was this job's already
};

// What became of a submission. A job that is refused is unknown from then on. kPlanning ends by itself: the planner has
// a limit.
enum class Admission { kUndecided, kPlanning, kAccepted, kRefused };

class Submissions {
 public:
  // All arguments outlive the submissions.
  Submissions(const CoordinationOptions& options, JobTable& jobs, WorkerTable& workers, JobQueue& queue, Outbox& outbox)
      : options_(options),
        jobs_(jobs),
        workers_(workers),
        queue_(queue),
        outbox_(outbox),
        ages_(options.wall_clock, options.monotonic_clock, std::nullopt),
        keys_(options.keys, [&jobs](uint64_t number) { return jobs.Find(number) != nullptr; }) {}
  Submissions(const Submissions&) = delete;
  Submissions& operator=(const Submissions&) = delete;

  // As CoordinationService's.
  uint64_t ReserveNumber() { return jobs_.Reserve(); }
  void GiveBackNumber(uint64_t number) { jobs_.GiveBack(number); }
  // The errors are those of CoordinationService::Submit.
  absl::StatusOr<Submitted> Submit(NewJob submitted);
  // Call it where workers of the coordinator before this one may come back: for `reattach`, no job is refused because
  // it fits on none of those that are here.
  void AwaitWorkers() { all_workers_known_at_ = options_.Now() + options_.reattach; }
  // The keys of jobs that may be forgotten, and the mark that the store has. Call it before Restore of a job.
  void RestoreKeys(const std::vector<StoredKey>& rows, std::optional<AgeMark> mark);
  // Call it for a job from the store: it is checked when a worker connects, where it has no plan yet.
  void Restore(JobRecord& job);
  // Call it for a job that a user retries.
  void CheckAgain(JobRecord& job);
  // Call it for a job that a user cancels: it is accepted if it was not yet, and checked no more.
  void Cancel(JobRecord& job);
  // True where the job has its plan now, and may start once it is in the store.
  bool Planned(const std::string& job_id, absl::StatusOr<PlannedJob> planned);
  // As CoordinationService::Abandon.
  void Abandon(const std::string& job_id, const absl::Status& reason);
  // kRefused: sets `*reason`.
  Admission AdmissionOf(const std::string& job_id, absl::Status* reason);

  // The submissions are in the store now, or could not be written.
  void Durable(const std::vector<StoredSubmission>& submissions);
  void Withdraw(const std::vector<StoredSubmission>& submissions, const absl::Status& reason);

  // Call it for a job that has ended. Its folders stay its owner's, and its key names it.
  void Forget(const JobRecord& job, bool files_removed = false);

  // Call it when a worker became usable, or was lost: jobs that wait for their check are given to those that there are.
  void CheckWaitingJobs() { checks_.WorkersChanged(); }
  void OnProbeResult(const std::string& worker, const ProbeResult& result) { checks_.OnResult(worker, result); }
  // The worker checks nothing any more: its jobs wait for others.
  void ForgetChecksOf(const std::string& worker) { checks_.ForgetWorker(worker); }

  // Lets deadlines pass. True where one did.
  bool Tick();
  void ForgivePause(absl::Duration pause);

  uint64_t accepted() const { return accepted_; }  // since the coordinator's start

 private:
  // As Submit. Gives no number back.
  absl::StatusOr<Submitted> Add(NewJob submitted);
  void ChooseOutputFolder(uint64_t number, NewJob& submitted) const;
  absl::Status CheckFolders(const NewJob& submitted) const;
  void CheckData(JobRecord& job);
  // A worker has found these sizes.
  void DataPassed(JobRecord& job, std::vector<DatasetSize> sizes);
  void AskForPlan(JobRecord& job, std::vector<DatasetSize> sizes);
  // Keeps the plan until the job's check is over, while there is room.
  void KeepExpected(uint64_t number, PlannedJob plan, const std::vector<DatasetSize>& sizes);
  // Neither a worker's answer nor a plan is of use any more.
  void ForgetCheck(const JobRecord& job);
  void EndCheck(JobRecord& job, const absl::Status& failure);
  // Errors: those of CheckMemory, once all workers are known.
  absl::Status CheckFits(const PlannedJob& planned, const JobSpec& spec) const;
  // As Planned, of a plan that was made.
  bool UsePlan(JobRecord& job, PlannedJob planned);
  void TakePlan(JobRecord& job, PlannedJob planned);
  void Accept(JobRecord& job);
  void Refuse(const JobRecord& job, const absl::Status& reason);
  void UseKey(const JobRecord& job, std::string spec_hash);
  void StoreKey(const JobRecord& job);
  // Stores how late it is for keys, so that the next coordinator knows their ages.
  void MarkAge();
  void ForgetOldJobs(const std::string& owner);
  // True where any was forgotten.
  bool ForgetBeyondTotals();
  // Forgets the oldest job of the owner whose ended jobs are the most. False where it may not be forgotten yet.
  bool ForgetOfLargest(size_t (*size_of)(const EndedJobs&));
  // Forgets up to `most` of these jobs, oldest first. Returns how many.
  size_t ForgetOldest(const std::set<uint64_t>& ended, size_t most);

  struct Refusal {
    std::string job_id;
    absl::Duration forget_at;
  };
  void ForgetRefusals(size_t most);

  struct ExpectedPlan {
    PlannedJob plan;
    std::string sizes;  // as KeyOf makes it of them
  };

  const CoordinationOptions& options_;
  JobTable& jobs_;
  WorkerTable& workers_;
  JobQueue& queue_;
  Outbox& outbox_;
  DataChecks checks_{options_,
                     jobs_,
                     workers_,
                     {[this](JobRecord& job, std::vector<DatasetSize> sizes) { DataPassed(job, std::move(sizes)); },
                      [this](JobRecord& job, const absl::Status& why) { EndCheck(job, why); },
                      [this](JobRecord& job) { Accept(job); }}};
  absl::Duration all_workers_known_at_ = -absl::InfiniteDuration();
  std::map<std::string, absl::Status> refused_;  // by job id; at most kMostRefusals
  std::deque<Refusal> refusals_;                 // the same, oldest first
  // By number, of jobs whose files are checked and that are not accepted; at most kMostExpectedPlans, each of
  // kMaxExpectedPlanBytes.
  std::map<uint64_t, ExpectedPlan> expected_;
  AgeClock ages_;  // of keys
  absl::Time next_mark_ = absl::InfinitePast();
  IdempotencyKeys keys_;
  uint64_t accepted_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_SUBMISSIONS_H_
