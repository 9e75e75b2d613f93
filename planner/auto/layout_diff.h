// How the layouts of two plans differ, by what they mean: names play no part, nor do axes of one rank.
//
//   std::cout << DiffOfLayouts(before, after);      // "  conv1 .. relu1: 1x1x2x2, was 4x1x1x1"
#ifndef ADJOIN_PLANNER_AUTO_LAYOUT_DIFF_H_
#define ADJOIN_PLANNER_AUTO_LAYOUT_DIFF_H_

#include <string>

#include "proto/plan.pb.h"

namespace adjoin {

// "1x1x2x2", a partition; else "2x2.S2.B", a mesh and what the tensor does along its axes; with the ranks, where they
// are not the first ones in order, and the sizes of the parts, where they are not even. Equal texts of tensors with
// equally many dims mean equal cuts.
std::string CutText(const LayoutPlan& layout);

// The layers that are cut otherwise: what they read, compute and return, homes of parameters other than whole on
// several ranks, recomputation. Layers in a row that differ alike have one line. "  no layer differs" where none does.
std::string DiffOfLayouts(const Plan& before, const Plan& after);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_LAYOUT_DIFF_H_
