// Rows that are the same again and again, as the blocks of a deep network are, drawn once.
//
//   std::vector<PictureRow> rows = FoldRows(page.rows);
//   rows[7].title;      // "33 times the 3 rows above: layer3.2.conv1 … layer3.34.add"
//
// Rows are the same where only names and times differ; they read rows as far above them. A stretch is folded where it
// comes at least three times in a row. What is still too long loses rows from its middle, and one row says so.
#ifndef ADJOIN_PLANNER_PICTURE_ROW_FOLDING_H_
#define ADJOIN_PLANNER_PICTURE_ROW_FOLDING_H_

#include <vector>

#include "planner/picture/picture_rows.h"

namespace adjoin {

// At most so many rows are drawn.
inline constexpr int kMostRows = 200;

std::vector<PictureRow> FoldRows(const std::vector<PictureRow>& rows, int most = kMostRows);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_ROW_FOLDING_H_
