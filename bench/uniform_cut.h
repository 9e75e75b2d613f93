// Jobs that an automatic choice of layouts is compared with: the same network cut in one way throughout.
//
//   ADJOIN_ASSIGN_OR_RETURN(const JobSpec uncut, Uncut(spec));
//   ADJOIN_ASSIGN_OR_RETURN(const JobSpec by_batch, CutUniformly(uncut, /*dim=*/0, /*ranks=*/4, rules));
//   ADJOIN_ASSIGN_OR_RETURN(const JobSpec slabs, CutUniformly(uncut, /*dim=*/2, /*ranks=*/4, rules));
//   ADJOIN_RETURN_IF_ERROR(MakeMeasurable(/*steps=*/20, rules, &slabs));
#ifndef ADJOIN_BENCH_UNIFORM_CUT_H_
#define ADJOIN_BENCH_UNIFORM_CUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "proto/job.pb.h"

namespace adjoin {

// Returns the job on one rank, without layouts, homes and repartitions.
JobSpec Uncut(const JobSpec& spec);

// Returns `uncut` on `ranks` ranks, cut in dim `dim` of its fields with most dims, evenly. Where dim is not 0, layers
// that read values of other numbers of dims, or shorter ones than there are ranks, and all that follow them are cut by
// batch. Whether the rules take it is the planner's to say. Errors: the planner's, of the job on one rank;
// kInvalidArgument where no field has such a dim, long enough.
absl::StatusOr<JobSpec> CutUniformly(const JobSpec& uncut, int dim, uint32_t ranks, const LayerRules& rules);

// Makes a training job short and independent of files: `steps` steps on synthetic data of the same shapes (with blocks,
// of theirs), without validation, evaluation, checkpoints and initial weights. Errors: the planner's.
absl::Status MakeMeasurable(uint64_t steps, const LayerRules& rules, JobSpec* spec);

}  // namespace adjoin

#endif  // ADJOIN_BENCH_UNIFORM_CUT_H_
