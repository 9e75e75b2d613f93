// How the ranks of a job agree on checkpoints: by sums over all of them of a few numbers.
//
//   RankSums sums = [&](const std::vector<double>& numbers) { return trainer->SumOverRanks(numbers); };
//   ADJOIN_ASSIGN_OR_RETURN(std::string text, TellAll(sums, rank == 0 ? "ckpt/step-0000000042" : ""));   // on every
//   rank
#ifndef ADJOIN_WORKER_CHECKPOINT_RANK_SUMS_H_
#define ADJOIN_WORKER_CHECKPOINT_RANK_SUMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adjoin {

// Returns the sums over all ranks of at most four numbers. Collective.
using RankSums = std::function<absl::StatusOr<std::vector<double>>(const std::vector<double>&)>;

// Returns, on every rank, the text of the one rank whose `mine` is not ""; "" where there is none. Collective. Errors:
// those of the sums.
absl::StatusOr<std::string> TellAll(const RankSums& sums, const std::string& mine);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_RANK_SUMS_H_
