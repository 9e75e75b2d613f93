// One page of a listing of the jobs, made in steps, so that nothing else waits for the whole of it.
//
//   ADJOIN_ASSIGN_OR_RETURN(JobPage page, JobPage::Begin(request));
//   while (!report.Continue(page)) ... others may use the service meanwhile ...
//   ListJobsResponse response = page.Take();
//
// A page token names the place behind which the next page begins (ListPlace), not a number of jobs: jobs that come and
// go between two pages move no others. A job that ends between two pages may be on both, as it was and as it is.
#ifndef ADJOIN_COORDINATOR_DECISIONS_JOB_PAGE_H_
#define ADJOIN_COORDINATOR_DECISIONS_JOB_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/decisions/job_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Errors: kInvalidArgument (no token of PageToken).
absl::StatusOr<ListPlace> ReadPageToken(const std::string& token);
std::string PageToken(const ListPlace& last);

struct SlotTotals {
  int64_t slots = 0, free = 0, workers = 0;          // of the workers that may get ranks
  int64_t gpus = 0, free_gpus = 0, gpu_workers = 0;  // likewise; those of the workers that have any
  std::string unfit;                                 // what is said of those that tell a condition; empty: none does
};

// What the reasons of many jobs that wait have in common, found out once for one answer.
struct ReasonContext {
  std::optional<SlotTotals> totals;
  std::map<std::string, SlotTotals> labelled;        // of the workers with certain labels, by these; no `unfit`
  std::map<std::string, std::string> shared_output;  // what CheckSharedOutput says, by all that it depends on
  std::map<std::string, std::string> memory;         // what MemoryReason says, likewise
  std::map<std::string, std::string> programs;       // what ProgramsReason says, likewise
};

class JobPage {
 public:
  // Errors: kInvalidArgument (the token; a state that is none).
  static absl::StatusOr<JobPage> Begin(const ListJobsRequest& request);
  // Call it once, when ClusterReport::Continue has returned true.
  ListJobsResponse Take();

 private:
  friend class ClusterReport;
  JobPage() = default;
  bool Wants(const JobRecord& job) const;
  // True where a summary of so many bytes is one too many.
  bool IsFull(size_t bytes) const;

  std::string owner_;         // empty: all
  std::set<JobState> state_;  // empty: all
  size_t most_jobs_ = 0;
  std::optional<ListPlace> after_;          // the last job that was looked at
  std::optional<std::string> last_worker_;  // likewise
  bool workers_done_ = false;
  bool begun_ = false;
  uint64_t workers_left_out_ = 0;
  size_t job_bytes_ = 0, worker_bytes_ = 0;
  ReasonContext reasons_;
  ListJobsResponse response_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_JOB_PAGE_H_
