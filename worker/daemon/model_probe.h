// Checks the file that a job's weights come from before the job is accepted: it is whole, and fits the model.
//
//   ProbeModel("/srv/data", "/srv/output", request.model(), result);
//   result.error();   // "weights.init_from: 'w.safetensors' does not fit the model ...: missing: fc1.bias"; unchanged
//   if well result.field();   // "weights.init_from"
//
// It reads no more than the header of a user's own file. Any thread may call it.
#ifndef ADJOIN_WORKER_DAEMON_MODEL_PROBE_H_
#define ADJOIN_WORKER_DAEMON_MODEL_PROBE_H_

#include <string>

#include "proto/coordinator.pb.h"
#include "worker/daemon/probe.h"

namespace adjoin {

// Returns the file or folder that it reads first.
std::string ModelProbePath(const std::string& data_root, const std::string& output_root, const ModelProbe& request);

// Until limits.deadline it reads the content of weights.from_output as well: ProbeResult.weights_file.
void ProbeModel(const std::string& data_root, const std::string& output_root, const ModelProbe& request,
                ProbeResult& result, const ProbeLimits& limits = {});

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_MODEL_PROBE_H_
