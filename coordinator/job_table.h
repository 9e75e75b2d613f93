// Every job that the coordinator knows, in the order of submission, in memory.
//
//   JobTable table(/*first_number=*/1);
//   JobRecord& job = table.Add(spec, plan_function);
//   table.SetState(job, RUNNING);
//   ADJOIN_ASSIGN_OR_RETURN(JobRecord* found, table.Resolve("lenet5"));
//
// Records keep their address until Erase. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_JOB_TABLE_H_
#define ADJOIN_COORDINATOR_JOB_TABLE_H_

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
#include "proto/coordinator.pb.h"

namespace adjoin {

// A connection of a worker daemon. A daemon that connects again is another connection.
using ConnectionId = uint64_t;

// What every rank receives: a serialized Plan and its hash.
struct PlannedJob {
  std::string plan;
  std::string hash;
};

// Makes the plan of one job once the sizes of its data sets are known.
using PlanFunction = std::function<absl::StatusOr<PlannedJob>(const std::vector<DatasetSize>&)>;

// Where a field of the spec stands in what the user wrote, "job.textproto:14:3"; "" where that is not known.
using PlaceFunction = std::function<std::string(const std::string& field)>;

enum class RankState { kStarting, kReady, kRunning, kSucceeded, kFailed, kKilled };
std::string ToString(RankState state);

struct RankRecord {
  ConnectionId connection = 0;
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
  absl::Duration until;
};

struct Attempt {
  uint64_t epoch = 0;
  std::vector<RankRecord> ranks;
  std::set<ConnectionId> holders;  // daemons that have not reported AttemptCleared
  absl::Duration start_deadline;
  std::optional<PeerFailure> peer_failure;
};

// How far the check of a job's data files is.
enum class DataCheck { kWaitsForWorker, kAsked, kDone };

struct JobRecord {
  uint64_t number = 0;
  std::string id;  // "job-17"
  JobSpec spec;
  PlanFunction plan_function;
  PlaceFunction place_of;  // may be empty
  PlannedJob planned;
  DataCheck data_check = DataCheck::kWaitsForWorker;
  ConnectionId checked_by = 0;
  absl::Duration check_deadline;
  bool accepted = false;  // its Submit was answered

  JobState state = PENDING;
  std::string reason;  // of FAILED
  absl::Time submitted, started, ended;
  Attempt attempt;
  JobProgress progress;
  std::set<std::string> artifacts;
};

bool IsFinal(JobState state);

class JobTable {
 public:
  explicit JobTable(uint64_t first_number) : next_number_(first_number) {}

  JobRecord& Add(const JobSpec& spec, PlanFunction plan_function);
  void Erase(uint64_t number);
  void SetState(JobRecord& job, JobState state);

  // Null where there is none of this id.
  JobRecord* Find(const std::string& id);
  // `reference`: an id, an unambiguous prefix of one, or a job's name (the latest of that name).
  // Errors: kNotFound; kInvalidArgument when a prefix fits several jobs.
  absl::StatusOr<JobRecord*> Resolve(const std::string& reference);

  // In the order of submission.
  std::vector<JobRecord*> All();
  std::vector<JobRecord*> Pending() { return Select(pending_); }
  std::vector<JobRecord*> Active() { return Select(active_); }  // STARTING and RUNNING

 private:
  std::vector<JobRecord*> Select(const std::set<uint64_t>& numbers);

  uint64_t next_number_;
  std::map<uint64_t, std::unique_ptr<JobRecord>> jobs_;
  std::set<uint64_t> pending_, active_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_JOB_TABLE_H_
