// Which layers may use the weights of another one (Layer.weights_of), as far as the job's text tells. That the shapes
// are one, the planner checks. Pure; any thread.
#ifndef ADJOIN_PLANNER_CHECKS_SHARED_WEIGHTS_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_SHARED_WEIGHTS_CHECK_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace adjoin {

// Call it for the job as written, and again for the job without blocks: a block's parts have names only there. In a job
// with blocks an unknown name is left to the second call.
// Errors: kInvalidArgument, at the layer's field: the named layer is unknown, the layer itself, of another kind, or
// uses another one's weights; or the layer says where its own parameters live or how they start.
absl::Status CheckSharedWeights(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_SHARED_WEIGHTS_CHECK_H_
