// The checks of jobs' data files by workers: which job is checked next, by which worker, and what follows when a worker
// does not answer.
//
//   DataChecks checks(options, jobs, workers, outbox, {.on_passed = ..., .on_failed = ..., .accept = ...});
//   checks.Add(job);                                  // a worker is asked now, or as soon as one has room
//   checks.OnResult("worker-0", result);              // on_passed or on_failed follows, or another worker is asked
//
// Each worker works on several checks at once (WorkerHello.data_checks), and the one with the fewest is asked. No owner
// of jobs gets all of that room: a job of somebody else finds some, however many slow files one user has. A check that
// a worker could not end (ProbeResult.undecided, no answer) goes to another worker; the first one is asked no more for
// a while if others are there. After kTries workers a job that nobody has accepted yet is refused; one that was
// accepted is checked again later. Without any worker jobs are accepted, and checked when one connects. Not
// thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_DATA_CHECKS_H_
#define ADJOIN_COORDINATOR_DECISIONS_DATA_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/outbox.h"
#include "coordinator/decisions/weights_source.h"
#include "coordinator/decisions/worker_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// The size of a data set that is made from the seed alone. Absent where it has files, or where something is wrong that
// the check will tell.
std::optional<DatasetSize> SizeWithoutFiles(const Dataset& dataset);

// The sizes of the job's data sets where it reads no file, so that no worker need look at any. Absent where it does, or
// where something is wrong that the check will tell.
std::optional<std::vector<DatasetSize>> SizesWithoutFiles(const JobSpec& spec);

class DataChecks {
 public:
  static constexpr size_t kTries = 2;  // workers that are asked for one check

  struct Callbacks {
    std::function<void(JobRecord& job, std::vector<DatasetSize> sizes)> on_passed;
    std::function<void(JobRecord& job, const absl::Status& why)> on_failed;
    std::function<void(JobRecord& job)> accept;  // there is no worker that could check it now
  };

  // The references outlive the checks.
  DataChecks(const CoordinationOptions& options, JobTable& jobs, WorkerTable& workers, Callbacks callbacks)
      : options_(options), jobs_(jobs), workers_(workers), callbacks_(std::move(callbacks)) {}
  DataChecks(const DataChecks&) = delete;
  DataChecks& operator=(const DataChecks&) = delete;

  // The job has files to be checked. A callback may come before it returns.
  void Add(JobRecord& job);
  // The same for a job from the store, which waits for WorkersChanged.
  void Restore(const JobRecord& job);
  // Nobody waits for the job's check any more: a worker that was asked is told so.
  void Remove(const JobRecord& job);

  // A worker became usable, or is usable no more.
  void WorkersChanged();
  void OnResult(const std::string& worker, const ProbeResult& result);
  // What the worker was asked is lost; others are asked.
  void ForgetWorker(const std::string& worker);

  // Lets deadlines pass. True where one did.
  bool Tick();
  void ForgivePause(absl::Duration pause);

 private:
  struct Check {
    std::string owner;
    std::string worker;         // that was asked; empty: none
    absl::Duration deadline;    // of its answer
    absl::Duration not_before;  // where it waits to be tried again
    absl::Duration pause;       // before that
    std::vector<std::string> tried;
    std::string errors;         // of those
    CheckpointRead checkpoint;  // that the worker chooses from
  };
  struct Checker {
    std::set<uint64_t> jobs;    // that it was asked to check
    absl::Duration not_before;  // it could not end a check: others are preferred until then
    absl::Duration pause;
  };
  enum class Search { kFound, kBusy, kAllTried, kNoWorker };

  void Wait(uint64_t number);
  void AcceptAll();
  void AskWorkers();
  // The first job of the owner that has the fewest checks under way, and room for one more; absent: there is none.
  std::optional<uint64_t> NextJob(const std::set<std::string>& passed_over);
  // Chooses a worker; where the job's weights come from an earlier one, among those that see them.
  Search FindWorker(Check& check, const std::optional<WeightsSource>& weights, std::string* worker);
  void Ask(uint64_t number, const std::optional<WeightsSource>& weights, const std::string& worker);
  void FoundWeights(JobRecord& job, const std::string& worker, const ProbeResult& result);
  void Fail(JobRecord& job, const std::string& field, const absl::Status& why);
  void Count();
  // Returns the job, and forgets that this worker was asked to check it.
  JobRecord* TakeBack(const std::string& worker, uint64_t number);
  void CouldNot(JobRecord& job, const std::string& worker, const std::string& error);
  void GiveUp(JobRecord& job);
  void Drop(uint64_t number);

  const CoordinationOptions& options_;
  JobTable& jobs_;
  WorkerTable& workers_;
  const Callbacks callbacks_;
  std::map<uint64_t, Check> checks_;                     // by job number
  std::map<std::string, std::set<uint64_t>> waiting_;    // by owner: jobs that a worker can be asked to check now
  std::set<std::pair<absl::Duration, uint64_t>> later_;  // those that wait for Check::not_before
  std::set<std::pair<absl::Duration, uint64_t>> asked_;  // those that were asked for, by deadline
  std::set<uint64_t> not_accepted_;                      // of those that wait
  std::map<std::string, int> under_way_;                 // by owner
  std::map<std::string, Checker> checkers_;              // by worker
  std::string last_asked_;                               // a worker
  int room_ = 0;                                         // of all usable workers together, as last counted
  bool is_counted_ = false;                              // since workers have changed
  bool asking_ = false;                                  // AskWorkers runs
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_DATA_CHECKS_H_
