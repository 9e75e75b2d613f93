// What CoordinationService tells users in steps, in one go: for tests, beside which nothing waits.
//
//   absl::StatusOr<DescribeJobResponse> job = WholeDescription(service, "job-1");
#ifndef ADJOIN_COORDINATOR_DECISIONS_WHOLE_ANSWERS_H_
#define ADJOIN_COORDINATOR_DECISIONS_WHOLE_ANSWERS_H_

#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/decisions/cluster_report.h"
#include "coordinator/decisions/coordination_service.h"
#include "coordinator/decisions/job_page.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

// Errors: those of JobPage::Begin.
inline absl::StatusOr<ListJobsResponse> WholeList(CoordinationService& service, const ListJobsRequest& request = {}) {
  absl::StatusOr<JobPage> page = JobPage::Begin(request);
  if (!page.ok()) return page.status();
  while (!service.Continue(*page)) {
  }
  return page->Take();
}

// Without the spec. Errors: those of JobTable::Resolve.
inline absl::StatusOr<DescribeJobResponse> WholeDescription(CoordinationService& service,
                                                            const JobReference& reference) {
  JobDescription made(reference);
  while (!service.Continue(made)) {
  }
  if (!made.status.ok()) return made.status;
  return std::move(made.response);
}

// Why the job waits is as it is now, which CoordinationService::RecentSummary does not promise. Errors: those of
// JobTable::Resolve.
inline absl::StatusOr<JobSummary> SummaryOf(CoordinationService& service, const JobReference& reference) {
  absl::StatusOr<DescribeJobResponse> described = WholeDescription(service, reference);
  if (!described.ok()) return described.status();
  return std::move(*described->mutable_job());
}

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_WHOLE_ANSWERS_H_
