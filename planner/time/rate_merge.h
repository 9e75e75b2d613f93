// What several ranks have measured side by side, as one table.
#ifndef ADJOIN_PLANNER_TIME_RATE_MERGE_H_
#define ADJOIN_PLANNER_TIME_RATE_MERGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/rates.pb.h"

namespace adjoin {

// The mean of each number, to four digits; kernels that not all have are left out. The rest is the first one's.
// `tables`: checked; at least one. Errors: kInvalidArgument where no kernel is left.
absl::StatusOr<RateTable> MergeRates(const std::vector<RateTable>& tables);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_TIME_RATE_MERGE_H_
