// The lines beside the rows of a picture: from each row that another one reads that is not the next, down to its
// readers. A U-Net's skips lie within each other.
//
//   const RowLanes lanes = LanesOf(rows);
//   lanes.lane[0];             // {.lane = 1, .from = 3, .to = {18}}: from row 3 to row 18, in the second lane
#ifndef ADJOIN_PLANNER_PICTURE_ROW_LANES_H_
#define ADJOIN_PLANNER_PICTURE_ROW_LANES_H_

#include <vector>

#include "planner/picture/picture_rows.h"

namespace adjoin {

inline constexpr int kMostLanes = 8;

struct RowLanes {
  struct Lane {
    int lane = 0;         // from 0, which is nearest to the rows
    int from = 0;         // a row
    std::vector<int> to;  // rows, in rising order
  };
  std::vector<Lane> lane;
  int lanes = 0;     // how many lie beside each other
  int left_out = 0;  // rows that are read further below, and for which there was no lane
};

// Lines in one lane do not touch each other; shorter ones are nearer.
RowLanes LanesOf(const std::vector<PictureRow>& rows);

// True where the row goes on from the one above.
bool GoesOn(const std::vector<PictureRow>& rows, int row);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_ROW_LANES_H_
