// A job and its newest attempt as rows of the store, and back.
//
//   changes.jobs.push_back(JobRow(job));
//   std::unique_ptr<JobRecord> job = JobFrom(row, std::move(submission), now);
#ifndef ADJOIN_COORDINATOR_DECISIONS_STORED_ROWS_H_
#define ADJOIN_COORDINATOR_DECISIONS_STORED_ROWS_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/store/records.pb.h"

namespace adjoin {

// Milliseconds since 1970; 0 is absl::Time(), which means never.
int64_t UnixMillis(absl::Time time);

StoredJob JobRow(const JobRecord& job);
StoredAttempt AttemptRow(const JobRecord& job, absl::Duration now);

// `now` is of the monotonic clock. The job has no functions and no attempt yet.
std::unique_ptr<JobRecord> JobFrom(const StoredJob& row, StoredSubmission submission, absl::Duration now);
Attempt AttemptFrom(const StoredAttempt& row, absl::Duration now);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_STORED_ROWS_H_
