// Every job that the coordinator knows, in the order of submission, in memory.
//
//   JobTable table(/*first_number=*/1);
//   JobRecord& job = table.Add(std::move(record));
//   table.SetState(job, RUNNING);
//   ADJOIN_ASSIGN_OR_RETURN(const JobRecord* found, table.Resolve({"lenet5", /*caller=*/"alice"}));
//
// Records keep their address until Erase. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_TABLE_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/output_folders.h"
#include "coordinator/decisions/output_use.h"
#include "coordinator/decisions/waiting_jobs.h"

namespace adjoin {

// How a user names a job: by its id, or by its name. Names are looked for among the caller's own jobs first.
struct JobReference {
  JobReference(std::string text, std::string caller = "") : text(std::move(text)), caller(std::move(caller)) {}
  JobReference(const char* text) : text(text) {}

  std::string text;
  std::string caller;  // the name of the user; empty: a local one, whose jobs have no owner
};

// True for "job-17": a text that names a job by its number, and so cannot be a job's name.
bool LooksLikeId(absl::string_view text);

// A job's place in the order of a listing: the jobs that have not ended first, in the order of the queue, then the
// others, newest first. A job keeps its place until it ends, or is retried.
struct ListPlace {
  bool ended = false;
  int32_t priority = 0;  // of a job that has not ended
  uint64_t number = 0;
};
ListPlace PlaceOf(const JobRecord& job);

// The ended jobs of one owner.
struct EndedJobs {
  std::set<uint64_t> numbers;
  size_t spec_bytes = 0;  // of all of them
};

class JobTable {
 public:
  explicit JobTable(uint64_t first_number) : next_number_(first_number) {}

  // Gives the job the next number where it has none, and its id.
  JobRecord& Add(std::unique_ptr<JobRecord> job);
  // No later job gets a number below this one; what was reserved is reserved no more where numbers are skipped.
  void SkipTo(uint64_t number);
  uint64_t next_number() const { return next_number_; }
  // Returns a number that no job gets but one that is added with it. Give it back where no such job comes. Numbers have
  // gaps where others were reserved meanwhile.
  uint64_t Reserve();
  bool IsReserved(uint64_t number) const { return reserved_.count(number) > 0; }
  // Does nothing where the number is not reserved: a job may have it.
  void GiveBack(uint64_t number);
  // Erases a job, with the ownership of its folders.
  void Erase(uint64_t number);
  // Erases a job whose folders stay its owner's. Returns the rows to write.
  std::vector<StoredFolder> Forget(uint64_t number, bool files_removed);
  void SetState(JobRecord& job, JobState state);
  // From now on the job is listed and counted.
  void Accept(JobRecord& job);

  // The job's spec, which lives as long as the caller keeps it. It never changes: any thread may read it while the job
  // goes on, or is erased.
  std::shared_ptr<const JobSpec> SpecOf(const JobRecord& job) const;

  // Null where no job has this id, or this number.
  JobRecord* Find(const std::string& id);
  JobRecord* Find(uint64_t number);
  const JobRecord* Find(const std::string& id) const;
  // Finds the job that a command reads. A name means the caller's own latest job of that name, or else the latest.
  // Errors: kNotFound; kInvalidArgument (an empty reference).
  absl::StatusOr<const JobRecord*> Resolve(const JobReference& reference) const;
  // Finds the job that a command changes. A name means the caller's own job of that name, or else anybody's: the one
  // that has not ended, or else the latest. Errors: as above; kInvalidArgument (several of that name have not ended, or
  // with `even_ended` several are there: lists them).
  absl::StatusOr<JobRecord*> ResolveToChange(const JobReference& reference, bool even_ended = false);
  // Finds the only job that the reference can mean. Errors: those of ResolveToChange with `even_ended`.
  absl::StatusOr<const JobRecord*> ResolveOne(const JobReference& reference) const;

  // In the order of submission.
  std::vector<JobRecord*> All();
  std::vector<const JobRecord*> All() const;
  // STARTING and RUNNING, in the order of submission.
  std::vector<JobRecord*> Active();
  std::vector<const JobRecord*> Active() const;
  uint64_t active_ranks() const { return active_ranks_; }
  // Calls `visit(job)` for those of Active whose number is higher than `after`, until it returns false.
  template <typename Visit>
  void VisitActive(uint64_t after, const Visit& visit) const {
    for (auto it = active_.upper_bound(after); it != active_.end(); ++it) {
      if (!visit(std::as_const(*it->second))) return;
    }
  }
  // Calls `visit(job)` for the PENDING jobs as WaitingJobs::Visit does. `visit` may change the state of the job that it
  // is given, and of no other.
  template <typename Visit>
  void VisitPending(const JobRecord* first, const Visit& visit) {
    pending_.Visit(first, visit);
  }
  // As WaitingJobs::PositionOf.
  uint32_t QueuePosition(const JobRecord& job) const { return pending_.PositionOf(job); }
  // The slots of the jobs of the job's user (waiting_jobs.h) that start and run: one for each rank.
  uint64_t SlotsOfUserOf(const JobRecord& job) const { return pending_.SlotsOf(UserOf(job)); }
  // Calls `visit(job)` for the jobs whose place in a listing is behind `after` (absent: all), in that order, until it
  // returns false.
  template <typename Visit>
  void VisitListed(const std::optional<ListPlace>& after, const Visit& visit) const {
    if (!after.has_value() || !after->ended) {
      auto it = after.has_value() ? unended_.upper_bound({-int64_t{after->priority}, after->number}) : unended_.begin();
      for (; it != unended_.end(); ++it) {
        if (!visit(std::as_const(*it->second))) return;
      }
    }
    auto it = after.has_value() && after->ended ? ended_.lower_bound(after->number) : ended_.end();
    while (it != ended_.begin()) {
      if (!visit(std::as_const(*jobs_.at(*--it)))) return;
    }
  }
  // How many accepted jobs are in this state: all of them, or those of one owner.
  uint64_t Count(JobState state) const;
  uint64_t CountOf(const std::string& owner, JobState state) const;
  // The accepted job that was submitted first of those that wait; null where none waits.
  const JobRecord* LongestWaiting() const;
  const std::set<uint64_t>& Ended() const { return ended_; }  // numbers
  const std::map<std::string, EndedJobs>& EndedByOwner() const { return ended_by_owner_; }
  // Bytes of memory that the specs of jobs have: of those that have not ended, and of those that have.
  size_t live_spec_bytes() const { return live_spec_bytes_; }
  size_t ended_spec_bytes() const { return ended_spec_bytes_; }
  size_t pending_count() const { return pending_.size(); }
  // Those of the user's jobs that are under limits (IsLimited).
  size_t PendingCountOf(const std::string& owner) const { return pending_.CountOf(owner); }
  // Finds the job that an output_dir belongs to, `but` this one. A job that has not ended comes before what others
  // left.
  std::optional<OutputUse> UseOf(absl::string_view output_dir, uint64_t but = 0) const;
  // The other jobs with this job's output_dir that are not forgotten, by number.
  std::vector<JobRecord*> SharingOutput(const JobRecord& job);
  // Finds the last submitted job that has checkpoints in this folder, and workers that see them; null where there is
  // none.
  const JobRecord* LatestWithCheckpointsIn(absl::string_view folder) const;
  // Finds the job whose results took the place of this one's; 0 where there is none.
  uint64_t ReplacedBy(const JobRecord& job) const;
  // The folders that the jobs write in.
  const OutputFolders& folders() const { return folders_; }
  OutputFolders& folders() { return folders_; }

 private:
  using QueueKey = std::pair<int64_t, uint64_t>;  // minus the priority, number
  static QueueKey KeyOf(const JobRecord& job) { return {-int64_t{job.priority}, job.number}; }
  using Counts = std::map<JobState, uint64_t>;  // without zeros
  void Index(JobRecord& job);
  void RemoveFromIndex(const JobRecord& job);
  void CountIn(const JobRecord& job);
  void CountOut(const JobRecord& job);

  void EraseRecord(uint64_t number);
  void SetEnded(const JobRecord& job, bool ended);
  absl::StatusOr<const JobRecord*> ResolveId(const JobReference& reference) const;

  uint64_t next_number_;
  std::set<uint64_t> reserved_;  // below next_number_; of no job
  std::map<uint64_t, std::shared_ptr<JobRecord>> jobs_;
  WaitingJobs pending_;
  std::map<QueueKey, JobRecord*> unended_;
  std::map<uint64_t, JobRecord*> active_;
  uint64_t active_ranks_ = 0;  // of the jobs in active_
  std::set<uint64_t> waiting_, ended_;
  std::map<std::string, Counts> counts_;  // of accepted jobs, by owner
  Counts all_counts_;
  std::map<std::string, EndedJobs> ended_by_owner_;  // no empty ones
  size_t live_spec_bytes_ = 0, ended_spec_bytes_ = 0;
  std::map<std::pair<std::string, std::string>, std::set<uint64_t>> names_;  // by name and owner; no empty sets
  OutputFolders folders_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_TABLE_H_
