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
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/output_folders.h"

namespace adjoin {

class JobTable {
 public:
  explicit JobTable(uint64_t first_number) : next_number_(first_number) {}

  // Gives the job the next number, and its id, where it has none.
  JobRecord& Add(std::unique_ptr<JobRecord> job);
  // No later job gets a number below this one.
  void SkipTo(uint64_t number) { next_number_ = std::max(next_number_, number); }
  void Erase(uint64_t number);
  void SetState(JobRecord& job, JobState state);

  // Null where no job has this id, or this number.
  JobRecord* Find(const std::string& id);
  JobRecord* Find(uint64_t number);
  const JobRecord* Find(const std::string& id) const;
  // Null where the owner has no job with this key.
  JobRecord* FindKey(const std::string& owner, const std::string& key);
  // `reference`: an id, an unambiguous prefix of one, or a job's name (the latest of that name).
  // Errors: kNotFound; kInvalidArgument when a prefix fits several jobs.
  absl::StatusOr<JobRecord*> Resolve(const std::string& reference);
  absl::StatusOr<const JobRecord*> Resolve(const std::string& reference) const;

  // In the order of submission.
  std::vector<JobRecord*> All();
  std::vector<const JobRecord*> All() const;
  // PENDING, in the order of the queue: by priority, then first come, first served.
  std::vector<const JobRecord*> Pending() const;
  // STARTING and RUNNING, in the order of submission.
  std::vector<JobRecord*> Active();
  std::vector<const JobRecord*> Active() const;
  // Calls `visit(job)` in the order of Pending until it returns false, without looking at the rest of a long queue.
  // `visit` may change the state of the job that it is given, and of no other.
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
  // The folders that the jobs write in.
  const OutputFolders& folders() const { return folders_; }

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
