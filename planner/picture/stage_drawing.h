// A network at a glance: its stages from left to right, deeper where their tensors are smaller, with the skips between
// them. A U-Net is a U.
//
//   const Drawing drawing = DrawStages(page.rows, /*width=*/820);   // empty: the network does not fit
//
// A stage has the rows that follow each other with one extent of space and one cut.
#ifndef ADJOIN_PLANNER_PICTURE_STAGE_DRAWING_H_
#define ADJOIN_PLANNER_PICTURE_STAGE_DRAWING_H_

#include <vector>

#include "planner/picture/drawing.h"
#include "planner/picture/picture_rows.h"

namespace adjoin {

// At most so many stages are drawn.
inline constexpr int kMostStages = 10;

// `rows`: not folded.
Drawing DrawStages(const std::vector<PictureRow>& rows, double width);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_STAGE_DRAWING_H_
