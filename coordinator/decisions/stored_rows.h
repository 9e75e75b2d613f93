// A job and its newest attempt as rows of the store, and back.
//
//   changes.jobs.push_back(JobRow(job));
//   job.attempt = AttemptFrom(row, now, wall_now);
#ifndef ADJOIN_COORDINATOR_DECISIONS_STORED_ROWS_H_
#define ADJOIN_COORDINATOR_DECISIONS_STORED_ROWS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "coordinator/decisions/job_table.h"
#include "coordinator/store/records.pb.h"

namespace adjoin {

StoredJob JobRow(const JobRecord& job);
StoredAttempt AttemptRow(const JobRecord& job);

// `now` of the monotonic clock, `wall_now` at the same moment.
Attempt AttemptFrom(const StoredAttempt& row, absl::Duration now, absl::Time wall_now);

// Milliseconds since 1970; 0 is absl::Time(), which means never.
absl::Time FromMillis(int64_t millis);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_STORED_ROWS_H_
