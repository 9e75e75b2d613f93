// Runs a function as the ranks of one program, without Adjoin's coordinator: what a `main` of your own needs.
//
//   absl::Status Train(Communicator& communicator) { ... }
//   int main(int argc, char** argv) { return Launch(argc, argv, /*ranks=*/4, Train); }
//
// Started by mpirun, srun or torchrun, whose variables say rank and size, the process is that rank. Started by itself
// it starts `ranks` processes of the same command and waits for them: the first that fails ends the others. README.md
// here lists the flags and variables.
#ifndef ADJOIN_EXAMPLES_STANDALONE_LAUNCH_H_
#define ADJOIN_EXAMPLES_STANDALONE_LAUNCH_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/comm/communicator.h"

namespace adjoin {

struct Seat {
  int rank = 0;
  int size = 1;
};

// Which rank the environment says that this process is, by the first pair of variables that it has: RANK and WORLD_SIZE
// (Launch's own, torchrun's), Open MPI's, PMI's, Slurm's. Nothing where it has none.
// Errors: kInvalidArgument (one of a pair without the other, not numbers, a rank that is not below the size).
absl::StatusOr<std::optional<Seat>> SeatFromEnvironment();

// `body` may throw: exceptions become a Status (primitives/status_exception.h). Returns what `main` has to: of a rank
// 0, or 1 with the error on stderr; of a program that started its ranks the largest of their exit codes (128 + signal
// for a killed one), 124 where they took longer than --timeout; 2 for wrong usage. No process that it started is left.
int Launch(int argc, char** argv, int ranks, const std::function<absl::Status(Communicator&)>& body);

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_STANDALONE_LAUNCH_H_
