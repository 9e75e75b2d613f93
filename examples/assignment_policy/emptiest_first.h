// An assignment policy that fills the emptiest node first.
//
//   CoordinationOptions options;
//   options.assignment = &AssignEmptiestFirst;
#ifndef ADJOIN_EXAMPLES_ASSIGNMENT_POLICY_EMPTIEST_FIRST_H_
#define ADJOIN_EXAMPLES_ASSIGNMENT_POLICY_EMPTIEST_FIRST_H_

#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/placement/assignment.h"

namespace adjoin {

// An AssignmentPolicy. Ranks go to the workers with the most free slots, as many to each as it may run, in the order
// job.rank_order. So small jobs keep away from each other, and large jobs find fewer nodes that are empty. Where a
// rank ran before does not count.
// Errors: kResourceExhausted (no group has slots for all ranks).
absl::StatusOr<Assignment> AssignEmptiestFirst(const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job);

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_ASSIGNMENT_POLICY_EMPTIEST_FIRST_H_
