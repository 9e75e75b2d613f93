#include "examples/assignment_policy/emptiest_first.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace adjoin {

absl::StatusOr<Assignment> AssignEmptiestFirst(const std::vector<CandidateGroup>& groups, const AssignmentNeeds& job) {
  for (CandidateGroup group : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [](const Candidate& a, const Candidate& b) { return a.free_slots > b.free_slots; });
    Assignment workers(job.rank_order.size());
    size_t assigned = 0;
    for (const Candidate& candidate : group) {
      for (int i = 0; i < candidate.most_ranks && assigned < workers.size(); ++i) {
        workers[job.rank_order[assigned++]] = std::string(candidate.worker);
      }
    }
    if (assigned == workers.size()) return workers;
  }
  return absl::ResourceExhaustedError("no workers that may run the job together have slots for all of its ranks");
}

}  // namespace adjoin
