// The picture of a cut tensor: its boxes in the ranks' colours, in the tensor's proportions.
//
//   const TensorPicture picture = DrawTensor(cut, TensorView::ForDims(4), /*side=*/84);
//   row.Add(picture.drawing, x, y);
//
// Up to three dims are drawn: a bar, a rectangle, or a block of which three sides are seen. Each part of the other dims
// (batch, channels) is a slice of its own, beside the others, with a bar for each such dim that shows where it lies.
// Halos are hatched. A box with several ranks has a stripe of each one's colour: copies (B) with a plain edge, terms of
// a sum (P) with a dashed one. What is too much to draw is grey, and the note says so.
#ifndef ADJOIN_PLANNER_PICTURE_TENSOR_DRAWING_H_
#define ADJOIN_PLANNER_PICTURE_TENSOR_DRAWING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/picture/drawing.h"
#include "planner/picture/tensor_cut.h"

namespace adjoin {

// How the dims of a tensor are shown: by dim 's' for space, which is drawn, or the letter of a bar.
struct TensorView {
  std::string roles;  // "NCss"

  // What a tensor with so many dims usually is: features "ss", sequences "Nss", images "NCss", volumes "NCsss".
  static TensorView ForDims(int dims);
  // The same without channels, as labels have it: "Nsss".
  static TensorView WithoutChannels(int dims);
  // Returns the view of a tensor whose dim i is dim `order[i]` of this one; ForDims where `order` is no permutation.
  TensorView Permuted(const std::vector<int64_t>& order) const;

  std::vector<int> Drawn() const;  // the last three that are space
  std::vector<int> Bars() const;   // the others
};

struct TensorPicture {
  Drawing drawing;   // from (0, 0)
  std::string note;  // what is not drawn; empty: nothing
};

// At most so many boxes and slices of a tensor are drawn.
inline constexpr int kMostBoxes = 64;
inline constexpr int kMostSlices = 4;
// Ranks' colours: rank r has the style "r<r modulo this>".
inline constexpr int kColours = 8;

std::string ColourOf(int rank);

// `side`: pixels of the longest dim that is drawn, 20 or more. Dims that are much shorter are drawn longer than they
// are, so that they can be seen.
TensorPicture DrawTensor(const TensorCut& cut, const TensorView& view, double side);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_TENSOR_DRAWING_H_
