// Errors that every attempt of a job would end with: it does not start again.
//
//   return HopelessFailure(absl::FailedPreconditionError("'base/model.safetensors' is another file than ..."));
//   if (IsHopelessFailure(status)) result.set_end(RANK_HOPELESS);
#ifndef ADJOIN_BASE_HOPELESS_FAILURE_H_
#define ADJOIN_BASE_HOPELESS_FAILURE_H_

#include "absl/status/status.h"

namespace adjoin {

// The same error, marked. The mark is a payload: who makes another status of this one takes the payloads along.
absl::Status HopelessFailure(absl::Status status);
bool IsHopelessFailure(const absl::Status& status);

}  // namespace adjoin

#endif  // ADJOIN_BASE_HOPELESS_FAILURE_H_
