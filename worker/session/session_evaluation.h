// Evaluation in a session: over a whole data set, recorded in the log, the progress and metrics.jsonl.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto stopped, RunEvaluation(environment, &parameters, &output, &progress));
#ifndef ADJOIN_WORKER_SESSION_SESSION_EVALUATION_H_
#define ADJOIN_WORKER_SESSION_SESSION_EVALUATION_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"

namespace adjoin {

// Absent where all batches are done; where a rank was asked to stop, the number of batches after which all ranks did.
// Collective. Errors: as Evaluator and SessionOutput.
absl::StatusOr<std::optional<int64_t>> RunEvaluation(const SessionEnvironment& environment, Parameters* parameters,
                                                     SessionOutput* output, SessionProgress* progress);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_EVALUATION_H_
