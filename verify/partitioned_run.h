// The user's model as the ranks run it, with threads of this process as ranks: planner's plan, network, sum of the
// gradients and optimizer are those of a training job.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<RankSteps> ranks, RunPartitioned(plan, input));
//   ranks[3][0].values.at("conv1");          // rank 3's part of it in the first step
#ifndef ADJOIN_VERIFY_PARTITIONED_RUN_H_
#define ADJOIN_VERIFY_PARTITIONED_RUN_H_

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "layers/registry.h"
#include "primitives/geometry/layout.h"
#include "proto/plan.pb.h"
#include "verify/serial_model.h"

namespace adjoin {

// The program that is run.
inline constexpr char kVerifiedProgram[] = "train";

struct PartitionedInput {
  std::vector<NamedTensors> fields;  // of each step, whole
  NamedTensors parameters;           // before the first step, whole
  const LayerRegistry* layers = nullptr;
};

// What one rank has of one step.
struct RankStep {
  NamedTensors values;                         // local, by ValuePlan::name
  NamedTensors cotangents;                     // local, in the dual of the value's layout; absent: none on this rank
  std::map<std::string, std::string> same_as;  // values that are another one's very tensor, and so share its cotangent
  std::vector<at::Tensor> parameter_grads;     // local blocks of the homes, in the plan's order; undefined: not trained
  std::vector<at::Tensor> parameters;          // after the step
  double loss = 0;                             // summed over ranks
};
using RankSteps = std::vector<RankStep>;

// By rank. Errors: of whichever rank failed first, which it names; kInvalidArgument for parameters of other names or
// shapes than the plan's.
absl::StatusOr<std::vector<RankSteps>> RunPartitioned(const Plan& plan, const PartitionedInput& input);

// What each rank has of every value of `program`, by ValuePlan::name, after a forward pass over one sample of fields.
// Errors: as RunPartitioned.
absl::StatusOr<std::vector<NamedTensors>> RunForward(const Plan& plan, const ProgramPlan& program,
                                                     const PartitionedInput& input);

// The part of `whole` that a rank holds.
at::Tensor PartOnRank(const at::Tensor& whole, const Layout& layout, int rank);

absl::StatusOr<const ProgramPlan*> VerifiedProgramOf(const Plan& plan);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_PARTITIONED_RUN_H_
