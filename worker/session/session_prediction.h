// Prediction in a session: layers' outputs over a whole data set, as files of the attempt.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto stopped, RunPrediction(environment, &parameters, &output, &progress));
#ifndef ADJOIN_WORKER_SESSION_SESSION_PREDICTION_H_
#define ADJOIN_WORKER_SESSION_SESSION_PREDICTION_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"

namespace adjoin {

// Absent where all batches are done; where a rank was asked to stop, the number of batches after which all ranks did.
// Collective. Errors: as Predictor and SessionOutput.
absl::StatusOr<std::optional<int64_t>> RunPrediction(const SessionEnvironment& environment, Parameters* parameters,
                                                     SessionOutput* output, SessionProgress* progress);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_PREDICTION_H_
