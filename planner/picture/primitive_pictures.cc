#include "planner/picture/primitive_pictures.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "planner/picture/drawing.h"
#include "planner/picture/plan_picture.h"
#include "planner/picture/tensor_cut.h"
#include "planner/picture/tensor_drawing.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/window.h"

namespace adjoin {
namespace {

constexpr double kPictureMargin = 24;

// Draws who holds what on a mesh of 2 x 2 ranks.
absl::StatusOr<Drawing> CellOf(const std::string& first, const std::string& second) {
  ADJOIN_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({2, 2}));
  ADJOIN_ASSIGN_OR_RETURN(const Placement a, Placement::Parse(first));
  ADJOIN_ASSIGN_OR_RETURN(const Placement b, Placement::Parse(second));
  ADJOIN_ASSIGN_OR_RETURN(Layout layout, Layout::Create({8, 8}, DType::kFloat32, std::move(mesh), {a, b}));
  return DrawTensor(TensorCut::Of(std::move(layout)), TensorView::ForDims(2), /*side=*/104).drawing;
}

// Cells of a dim, drawn `size` pixels wide each.
void AddGrid(int64_t cells, double size, double left, double top, Drawing& drawing) {
  const double length = size * static_cast<double>(cells);
  for (int64_t i = 1; i < cells; ++i) {
    const double at = size * static_cast<double>(i);
    drawing.AddLine({{left + at, top}, {left + at, top + length}}, "rule");
    drawing.AddLine({{left, top + at}, {left + length, top + at}}, "rule");
  }
}

void AddBox(const Box& box, double size, double left, double top, const std::string& style, Drawing& drawing) {
  drawing.AddRect({left + size * static_cast<double>(box[1].lo), top + size * static_cast<double>(box[0].lo)},
                  size * static_cast<double>(box[1].size()), size * static_cast<double>(box[0].size()), style,
                  box.ToString());
}

}  // namespace

absl::StatusOr<std::string> PlacementsSvg() {
  const std::vector<std::string> placements = {"S(0)", "S(1)", "B", "P"};
  Drawing drawing;
  drawing.AddText({kPictureMargin, 40}, "One tensor on a mesh of 2 x 2 ranks", TextStyle::kHeading);
  drawing.AddText({kPictureMargin, 60},
                  "Ranks 0, 1 are the mesh's first row, ranks 2, 3 its second. The first axis leads from 0 "
                  "to 2, the second from 0 to 1.",
                  TextStyle::kPlain);
  drawing.AddText({kPictureMargin, 77},
                  "A box with stripes is on several ranks: as copies (B), or as the terms of a sum (P, "
                  "dashed).",
                  TextStyle::kPlain);
  constexpr double kLeft = 130, kTop = 128, kColumn = 160, kRow = 132;
  drawing.AddText({kLeft + 1.5 * kColumn + 52, 100}, "along the second axis", TextStyle::kSmall, Anchor::kMiddle);
  drawing.AddText({kPictureMargin, kTop + 12}, "along the", TextStyle::kSmall);
  drawing.AddText({kPictureMargin, kTop + 26}, "first axis", TextStyle::kSmall);
  for (size_t row = 0; row < placements.size(); ++row) {
    const double y = kTop + kRow * static_cast<double>(row);
    drawing.AddText({kLeft - 14, y + 56}, placements[row], TextStyle::kTitle, Anchor::kEnd);
    for (size_t column = 0; column < placements.size(); ++column) {
      const double x = kLeft + kColumn * static_cast<double>(column);
      if (row == 0) drawing.AddText({x + 52, kTop - 10}, placements[column], TextStyle::kTitle, Anchor::kMiddle);
      ADJOIN_ASSIGN_OR_RETURN(const Drawing cell, CellOf(placements[row], placements[column]));
      drawing.Add(cell, x, y);
    }
  }
  return SvgFile(drawing, "Placements on a mesh of 2 x 2 ranks");
}

absl::StatusOr<std::string> HaloExchangeSvg() {
  constexpr int64_t kCells = 12;
  ADJOIN_ASSIGN_OR_RETURN(const Layout x, Layout::Partition({kCells, kCells}, DType::kFloat32, {2, 2}, {0, 1, 2, 3}));
  ADJOIN_ASSIGN_OR_RETURN(const Window window, Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1}));
  const std::map<int, Reading> readings = {{0, window}, {1, window}};
  ADJOIN_ASSIGN_OR_RETURN(const Distribution reads, Distribution::Reads(x, readings, x));
  Drawing drawing;
  drawing.AddText({kPictureMargin, 40}, "The halo exchange of a convolution, and its adjoint", TextStyle::kHeading);
  drawing.AddText({kPictureMargin, 60},
                  "12 x 12 cells on 2 x 2 ranks; kernel 3, padding 1. Each rank computes the outputs at its own cells.",
                  TextStyle::kPlain);
  constexpr double kTop = 120;
  // All ranks together.
  drawing.AddText({kPictureMargin, kTop - 12}, "who holds what, and all halos", TextStyle::kTitle);
  TensorCut cut = TensorCut::Of(x);
  OperatorPlan op;
  *op.mutable_from() = ToProto(x);
  *op.mutable_to() = ToProto(x);
  for (const auto& [dim, reading] : readings) *op.add_reading() = ToProto(dim, reading);
  ADJOIN_RETURN_IF_ERROR(cut.AddHalos(op));
  drawing.Add(DrawTensor(cut, TensorView::ForDims(2), 216).drawing, kPictureMargin, kTop);
  // One rank after the other.
  constexpr double kCell = 9, kLeft = 300, kColumn = 134, kForward = kTop + 8, kBackward = kTop + 172;
  drawing.AddText({kLeft, kTop - 12}, "forward: each rank fetches its halo (hatched)", TextStyle::kTitle);
  drawing.AddText({kLeft, kTop + 152}, "backward: the halos' gradients are added at their owners", TextStyle::kTitle);
  for (int rank = 0; rank < 4; ++rank) {
    const double left = kLeft + kColumn * rank;
    const Box own = x.BoxOf(rank);
    for (const double top : {kForward, kBackward}) {
      for (const CutBox& held : cut.boxes()) {
        AddBox(held.box, kCell, left, top, held.ranks[0] == rank ? absl::StrCat("b ", ColourOf(rank)) : "rest",
               drawing);
      }
      AddGrid(kCells, kCell, left, top, drawing);
    }
    for (const Piece& piece : reads.View(rank).pieces) {
      for (const Box& halo : BoxDifference(piece.box, own)) AddBox(halo, kCell, left, kForward, "ha", drawing);
      AddBox(piece.box, kCell, left, kForward, "o q", drawing);
    }
    std::vector<std::string> givers;
    for (const HaloBox& halo : cut.halos()) {
      const Box added = halo.box.Intersect(own);
      if (halo.rank == rank || added.empty()) continue;
      AddBox(added, kCell, left, kBackward, absl::StrCat("b ", ColourOf(halo.rank)), drawing);
      AddBox(added, kCell, left, kBackward, "ha", drawing);
    }
    for (int other = 0; other < 4; ++other) {
      if (other != rank) givers.push_back(absl::StrCat(other));
    }
    drawing.AddText({left, kTop + 130}, absl::StrCat("rank ", rank, " reads"), TextStyle::kSmall);
    drawing.AddText({left, kTop + 294}, absl::StrCat(rank, " adds from ", absl::StrJoin(givers, ",")),
                    TextStyle::kSmall);
  }
  drawing.AddText({kPictureMargin, kTop + 240}, "Copying forward is adding backward:", TextStyle::kPlain);
  drawing.AddText({kPictureMargin, kTop + 257}, "the same list of boxes, read the", TextStyle::kPlain);
  drawing.AddText({kPictureMargin, kTop + 274}, "other way round.", TextStyle::kPlain);
  return SvgFile(drawing, "The halo exchange of a convolution and its adjoint");
}

}  // namespace adjoin
