// Errors that are the fault of a node or its file systems, and not of the job that met them: the job starts again.
//
//   return InfrastructureFailure(absl::UnavailableError("out/.epoch.lock: process 77 keeps it locked"));
//   if (IsInfrastructureFailure(status)) result.set_end(RANK_LOST);
#ifndef ADJOIN_BASE_INFRASTRUCTURE_FAILURE_H_
#define ADJOIN_BASE_INFRASTRUCTURE_FAILURE_H_

#include "absl/status/status.h"

namespace adjoin {

// The same error, marked. The mark is a payload: who makes another status of this one takes the payloads along.
absl::Status InfrastructureFailure(absl::Status status);
bool IsInfrastructureFailure(const absl::Status& status);

}  // namespace adjoin

#endif  // ADJOIN_BASE_INFRASTRUCTURE_FAILURE_H_
