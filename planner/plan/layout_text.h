// A layout in a few words, for people.
//
//   LayoutText(plan);   // "1x1x2x2 on ranks 0-3"
#ifndef ADJOIN_PLANNER_PLAN_LAYOUT_TEXT_H_
#define ADJOIN_PLANNER_PLAN_LAYOUT_TEXT_H_

#include <string>

#include "proto/plan.pb.h"

namespace adjoin {

// Returns "1x1x2x2 on ranks 0-3" where every axis cuts its own dim, in order; else the mesh with its placements:
// "2x2 S(1) B on ranks 0-3"; "rank 3" for one rank. Cuts that are not balanced follow: ", dim 2 9+19".
std::string LayoutText(const LayoutPlan& layout);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_LAYOUT_TEXT_H_
