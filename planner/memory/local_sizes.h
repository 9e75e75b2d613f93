// The local tensors of a layer or a loss on one rank, as its kernel sees them, found in the plan.
//
//   ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(plan, program, layer, rank));
//   local.sizes.input[0];    // halos included
//   local.moved[0];          // it is no view of the value
#ifndef ADJOIN_PLANNER_MEMORY_LOCAL_SIZES_H_
#define ADJOIN_PLANNER_MEMORY_LOCAL_SIZES_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/memory/layer_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/traffic.h"
#include "proto/plan.pb.h"

namespace adjoin {

// The layouts and the ends of movements that a plan's messages describe, each made once: who looks at many ranks asks
// for the same ones for each of them. Messages are known by their addresses: they must stay where they are, unchanged,
// as long as this is asked. The answers stay valid as long as this is there. One thread at a time.
class PlanGeometry {
 public:
  // Errors: as LayoutFromProto.
  absl::StatusOr<const Layout*> LayoutOf(const LayoutPlan& message);
  // Errors: as MovementEndsOf; as CheckReadings.
  absl::StatusOr<const MovementEnds*> EndsOf(const OperatorPlan& op);

 private:
  std::unordered_map<const LayoutPlan*, std::unique_ptr<const Layout>> layouts_;
  std::unordered_map<const OperatorPlan*, std::unique_ptr<const MovementEnds>> ends_;
};

struct LocalSizes {
  LayerSizes sizes;
  std::vector<DType> input_type;
  std::vector<bool> moved;  // by input: by a movement, or copied for a boundary
  struct Parameter {
    bool copied = false;      // by a movement, or to another type
    int64_t moved_bytes = 0;  // of what a movement brings, in the parameter's own type
    int64_t home_bytes = 0;   // of this rank's block
    int64_t home_elements = 0;
  };
  std::vector<Parameter> parameter;  // as sizes.parameter: of a layer's parameters, without buffers
};

// The movement that a layer makes in a role; null where nothing moves.
const OperatorPlan* OperatorOf(const ProgramPlan& program, const LayerPlan& layer, const std::string& role);

// `layer`: of `program`, a program of `plan`. Errors: as LayoutFromProto, ReadingFromProto and DistributionsOf.
absl::StatusOr<LocalSizes> LocalSizesOf(const Plan& plan, const ProgramPlan& program, const LayerPlan& layer, int rank);
// The same, for many ranks of one plan.
absl::StatusOr<LocalSizes> LocalSizesOf(const Plan& plan, const ProgramPlan& program, const LayerPlan& layer, int rank,
                                        PlanGeometry* geometry);

// The same of a loss: its inputs are the prediction and, where the loss has one, the variance. Errors: likewise.
absl::StatusOr<LocalSizes> LocalSizesOf(const ProgramPlan& program, const LossPlan& loss, int rank);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_MEMORY_LOCAL_SIZES_H_
