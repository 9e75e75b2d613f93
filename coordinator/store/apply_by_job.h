// Writes what can be written: where a row is refused whatever is tried (it is too large, or contradicts another), the
// rows of its job are left out, and all others are written.
//
//   std::vector<RefusedJob> refused;
//   std::optional<StoreChanges> left;
//   absl::Status status = ApplyByJob(store, changes, &refused, &left);
//   for (const RefusedJob& job : refused) ...                    // nothing of these jobs was written
#ifndef ADJOIN_COORDINATOR_STORE_APPLY_BY_JOB_H_
#define ADJOIN_COORDINATOR_STORE_APPLY_BY_JOB_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/store/store.h"

namespace adjoin {

struct RefusedJob {
  uint64_t number = 0;
  absl::Status why;
};

// True where another try of the same rows cannot succeed, and other rows may.
bool IsRefusedRow(const absl::Status& status);

// Takes one transaction where nothing is refused, else about two times the logarithm of the number of jobs for each
// that is. `left` is set where it returns an error after a part was written: another call has to write these. Errors:
// those of Store::Apply but refused rows.
absl::Status ApplyByJob(Store& store, const StoreChanges& changes, std::vector<RefusedJob>* refused,
                        std::optional<StoreChanges>* left);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_STORE_APPLY_BY_JOB_H_
