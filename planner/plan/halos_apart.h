// Finds the convolutions whose input another layer keeps for the backward pass in any case. What such a convolution
// reads would be there twice, once with its halo: it keeps the halo alone (LayerPlan.keeps_halo_apart).
//
//   ADJOIN_RETURN_IF_ERROR(KeepHalosApart(plan, &program));
//
// Pure: the same on every rank.
#ifndef ADJOIN_PLANNER_PLAN_HALOS_APART_H_
#define ADJOIN_PLANNER_PLAN_HALOS_APART_H_

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace adjoin {

// `program`: one of `plan`'s. Errors: as LocalSizesOf (planner/memory/local_sizes.h) and RecomputedRuns.
absl::Status KeepHalosApart(const Plan& plan, ProgramPlan* program);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_HALOS_APART_H_
