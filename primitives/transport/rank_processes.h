// Starts this program once more for every rank, and waits for all of them.
//
//   ADJOIN_ASSIGN_OR_RETURN(const int code, RunRankProcesses(argv, {{"RANK=0"}, {"RANK=1"}}, deadline));
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_RANK_PROCESSES_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_RANK_PROCESSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/deadline.h"

namespace adjoin {

// One process per entry of `environments`, whose variables ("NAME=value") come before this process's own. Returns when
// all have ended and are reaped. Once one has failed, SIGTERM or SIGINT has come, or the deadline has passed, it kills
// the rest; Linux kills them if this process dies.
// Returns the largest exit code of those that ended by themselves (128 + signal for a killed one), or 124 at the
// deadline, or 128 + the signal that came.
// Errors: kUnavailable (a process cannot be started; the others are gone then).
//
// One thread, and no others in the process: it blocks signals of the whole process while it runs.
absl::StatusOr<int> RunRankProcesses(char** argv, const std::vector<std::vector<std::string>>& environments,
                                     Deadline deadline);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_RANK_PROCESSES_H_
