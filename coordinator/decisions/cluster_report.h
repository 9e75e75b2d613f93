// What CoordinationService tells users, and programs that watch it, of jobs and workers. It reads the parts and
// changes nothing.
//
//   ClusterReport report({options, jobs, workers, homes, queue, submissions, attempts});
//   ListJobsResponse list = report.List();
#ifndef ADJOIN_COORDINATOR_DECISIONS_CLUSTER_REPORT_H_
#define ADJOIN_COORDINATOR_DECISIONS_CLUSTER_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/decisions/attempts.h"
#include "coordinator/decisions/checkpoint_homes.h"
#include "coordinator/decisions/cluster_snapshot.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_queue.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/decisions/submissions.h"
#include "coordinator/decisions/worker_table.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// The worker that has a result of a job.
struct ArtifactSource {
  ConnectionId connection = 0;
  std::string worker;
  std::string job_id;
  std::string owner;
  std::string output_dir;
  uint64_t epoch = 0;
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
  ListJobsResponse List() const;
  absl::StatusOr<DescribeJobResponse> Describe(const std::string& reference) const;
  absl::StatusOr<JobSummary> Summary(const std::string& reference) const;
  absl::StatusOr<ArtifactSource> FindArtifact(const std::string& reference, const std::string& name) const;
  ClusterSnapshot Snapshot() const;

 private:
  JobSummary Summarize(const JobRecord& job, uint32_t queue_position) const;
  uint32_t QueuePosition(const JobRecord& job) const;
  std::string PendingReason(const JobRecord& job, uint32_t queue_position) const;
  std::string SlotsReason(const JobRecord& job, uint32_t queue_position) const;

  const Parts parts_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_CLUSTER_REPORT_H_
