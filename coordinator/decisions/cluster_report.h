// What CoordinationService tells users, and programs that watch it, of jobs and workers. It reads the parts and
// changes nothing.
//
//   ClusterReport report({options, jobs, workers, homes, queue, submissions, attempts});
//   JobDescription made(JobReference("job-1"));
//   while (!report.Continue(made)) ... others may use the service meanwhile ...
#ifndef ADJOIN_COORDINATOR_DECISIONS_CLUSTER_REPORT_H_
#define ADJOIN_COORDINATOR_DECISIONS_CLUSTER_REPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/decisions/attempts.h"
#include "coordinator/decisions/checkpoint_homes.h"
#include "coordinator/decisions/cluster_snapshot.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_page.h"
#include "coordinator/decisions/job_queue.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/submissions.h"
#include "coordinator/decisions/worker_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// The worker that has a result of a job, and what it is told.
struct ArtifactSource {
  ConnectionId connection = 0;
  std::string worker;
  uint64_t job = 0;          // number
  uint64_t epoch = 0;        // of the attempt that wrote it
  bool needs_model = false;  // `send` still lacks the tensors of the job's model, which its plan has
  SendArtifact send;         // all but the request's id
};

// The description of a job, as far as it is made.
struct JobDescription {
  explicit JobDescription(JobReference reference) : reference(std::move(reference)) {}

  const JobReference reference;
  absl::Status status;           // the errors of JobTable::Resolve
  DescribeJobResponse response;  // without the spec, which can be large
  // Any thread may read or copy it.
  std::shared_ptr<const JobSpec> spec;
  bool begun = false;
};

class ClusterReport {
 public:
  struct Parts {
    const CoordinationOptions& options;
    const JobTable& jobs;
    const WorkerTable& workers;
    const CheckpointHomes& homes;
    const JobQueue& queue;
    const Submissions& submissions;
    const Attempts& attempts;
  };
  // All parts outlive the report.
  explicit ClusterReport(const Parts& parts) : parts_(parts) {}

  // The errors are those of the methods of CoordinationService that have these names.
  // Adds to the page for about a millisecond. True where it is complete.
  bool Continue(JobPage& page) const;
  // Adds ranks for about a millisecond, the first time only as many as take no time to speak of. True where it is
  // complete, or is an error. Where another attempt has begun meanwhile, the ranks are those of that.
  bool Continue(JobDescription& made) const;
  // Why the job waits may be as it was a tenth of a second ago: thousands may ask for jobs that wait.
  absl::StatusOr<JobSummary> RecentSummary(const JobReference& reference);
  absl::StatusOr<ArtifactSource> FindArtifact(const JobReference& reference, const GetArtifactRequest& request) const;
  ClusterSnapshot Snapshot() const;
  // Adds to the snapshot for about a millisecond. True where it is complete.
  bool Continue(SnapshotInSteps& made) const;

 private:
  // Error: kFailedPrecondition, kNotFound.
  absl::Status CheckPublished(const JobRecord& job, const std::string& name) const;
  absl::Status FillCheckpoint(const JobRecord& job, const CheckpointChoice& choice, ArtifactSource* source) const;
  // Sets the connection of the first of these workers that has one. Error: kUnavailable.
  absl::Status FindWorker(const std::vector<std::string>& names, const std::string& what, ArtifactSource* source) const;
  void CountAll(ClusterSnapshot& now) const;
  bool AddWorkers(JobPage& page, const std::function<bool()>& late) const;
  bool AddJobs(JobPage& page, const std::function<bool()>& late) const;
  uint64_t CountFor(const JobPage& page) const;
  JobSummary Summarize(const JobRecord& job, ReasonContext& context) const;
  WorkerSummary Summarize(const WorkerRecord& worker) const;
  // All but the ranks.
  void Fill(const JobRecord& job, DescribeJobResponse& response) const;
  std::string PendingReason(const JobRecord& job, ReasonContext& context) const;
  std::string SlotsReason(const JobRecord& job, ReasonContext& context) const;
  const SlotTotals& TotalsIn(ReasonContext& context) const;
  // Counts only workers that have the labels of `wanted`.
  const SlotTotals& TotalsFor(ReasonContext& context, const Resources& wanted) const;
  const std::string& MemoryIn(ReasonContext& context, const JobRecord& job) const;
  const std::string& SharedOutputIn(ReasonContext& context, const JobSpec& spec) const;
  const std::string& ProgramsIn(ReasonContext& context, const JobSpec& spec) const;
  // "1 worker can run no ranks (worker-0: ...)"; "" where there is none.
  std::string UnfitReason() const;

  const Parts parts_;
  ReasonContext recent_;
  absl::Duration recent_at_ = -absl::InfiniteDuration();
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_CLUSTER_REPORT_H_
