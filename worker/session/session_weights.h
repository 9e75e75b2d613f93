// The files of a session's weights: those that the job begins with, and model.safetensors.
#ifndef ADJOIN_WORKER_SESSION_SESSION_WEIGHTS_H_
#define ADJOIN_WORKER_SESSION_SESSION_WEIGHTS_H_

#include "absl/status/status.h"
#include "layers/network/parameters.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_output.h"
#include "worker/session/session_progress.h"

namespace adjoin {

// Reads the file that JobSpec.weights names, if it names one. Errors: as HoldBelow and LoadModel.
absl::Status LoadWeights(const SessionEnvironment& environment, Parameters* parameters);

// Writes model.safetensors into the attempt's folder. Collective. Errors: as SaveModel; kFailedPrecondition (a later
// attempt has begun).
absl::Status WriteModel(const SessionEnvironment& environment, const Parameters& parameters, SessionOutput* output,
                        SessionProgress* progress);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_WEIGHTS_H_
