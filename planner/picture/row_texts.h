// What is written beside a row of a picture, and how large its tensor is drawn.
#ifndef ADJOIN_PLANNER_PICTURE_ROW_TEXTS_H_
#define ADJOIN_PLANNER_PICTURE_ROW_TEXTS_H_

#include <string>
#include <utility>
#include <vector>

#include "planner/picture/picture_rows.h"
#include "planner/picture/tensor_drawing.h"

namespace adjoin {

// "halo exchange · 86.2 KiB in 2 messages (conv1.x)".
std::string MovementText(const MovementRow& movement);

// Lines below the title: movements within the row, parameters, work and time, remarks. `note`: of the row's picture.
// What is much is cut, and a line says so.
std::vector<std::string> SmallLines(const PictureRow& row, const std::string& note);

// "45.2 Mflop forward · 1.2 ms forward, 2.3 ms backward, 0.1 ms moving"; "" where nothing is known.
std::string WorkText(const PictureRow& row);

// Pictures of the rows, as large as they are drawn: tensors with more cells along a dim are larger.
std::vector<TensorPicture> PicturesOf(const std::vector<PictureRow>& rows, double largest);

// The signs that a picture of these rows needs, each drawn in 22 x 14 pixels, and what they mean.
std::vector<std::pair<Drawing, std::string>> LegendOf(const PicturePage& page);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_ROW_TEXTS_H_
