#include "planner/picture/row_texts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/amount_text.h"

namespace adjoin {
namespace {

constexpr size_t kMostMovements = 5;
constexpr size_t kMostParameters = 4;

int64_t LongestDrawn(const PictureRow& row) {
  int64_t longest = 1;
  for (const int dim : row.view.Drawn()) longest = std::max(longest, row.tensor->shape()[dim]);
  return longest;
}

// The colours of two ranks side by side; `outline` is the class of the line around them.
Drawing TwoRanks(const char* outline) {
  Drawing drawing;
  drawing.AddRect({0, 0}, 11, 14, "r0");
  drawing.AddRect({11, 0}, 11, 14, "r1");
  drawing.AddRect({0, 0}, 22, 14, outline);
  return drawing;
}

}  // namespace

std::string MovementText(const MovementRow& movement) {
  return absl::StrCat(FactsText(movement.facts), " (", movement.name, ")");
}

std::string WorkText(const PictureRow& row) {
  std::vector<std::string> parts;
  if (row.flops > 0) parts.push_back(absl::StrCat(FlopsText(row.flops), " forward"));
  if (row.seconds() > 0) {
    std::vector<std::string> times;
    if (row.forward > 0) times.push_back(absl::StrCat(SecondsText(row.forward), " forward"));
    if (row.backward > 0) times.push_back(absl::StrCat(SecondsText(row.backward), " backward"));
    if (row.movement > 0) times.push_back(absl::StrCat(SecondsText(row.movement), " moving"));
    parts.push_back(absl::StrCat("predicted ", absl::StrJoin(times, ", ")));
  }
  return absl::StrJoin(parts, " · ");
}

std::vector<std::string> SmallLines(const PictureRow& row, const std::string& note) {
  std::vector<std::string> lines;
  if (!row.input_names.empty()) lines.push_back(absl::StrCat("reads ", absl::StrJoin(row.input_names, ", ")));
  std::vector<std::string> movements;
  for (const MovementRow& movement : row.inside) movements.push_back(absl::StrCat("within: ", MovementText(movement)));
  for (const MovementRow& movement : row.after) movements.push_back(absl::StrCat("then: ", MovementText(movement)));
  for (size_t i = 0; i < movements.size() && i < kMostMovements; ++i) lines.push_back(movements[i]);
  if (movements.size() > kMostMovements) {
    lines.push_back(absl::StrCat("and ", movements.size() - kMostMovements, " more movements"));
  }
  size_t shown = 0, left = 0, fixed = 0;
  for (const ParameterRow& parameter : row.parameters) {
    if (!parameter.trained) {
      ++fixed;
    } else if (shown == kMostParameters) {
      ++left;
    } else {
      ++shown;
      lines.push_back(absl::StrCat(parameter.name, " ", parameter.shape, ", home ", parameter.home,
                                   parameter.gradient.empty() ? "" : "; ", parameter.gradient));
    }
  }
  if (left > 0) lines.push_back(absl::StrCat("and ", left, " more parameters"));
  if (fixed > 0)
    lines.push_back(absl::StrCat(fixed, fixed == 1 ? " tensor that is" : " tensors that are", " not trained"));
  lines.insert(lines.end(), row.notes.begin(), row.notes.end());
  if (!note.empty()) lines.push_back(note);
  if (const std::string work = WorkText(row); !work.empty()) lines.push_back(work);
  return lines;
}

std::vector<TensorPicture> PicturesOf(const std::vector<PictureRow>& rows, double largest) {
  std::map<std::string, int64_t> longest;  // images are compared with images, features with features
  for (const PictureRow& row : rows) {
    if (row.tensor == nullptr) continue;
    int64_t& most = longest[row.view.roles];
    most = std::max(most, LongestDrawn(row));
  }
  std::vector<TensorPicture> pictures;
  for (const PictureRow& row : rows) {
    TensorPicture& picture = pictures.emplace_back();
    if (row.tensor == nullptr) continue;
    const double most = static_cast<double>(longest[row.view.roles]);
    const double block = row.view.Drawn().size() == 3 ? 0.62 : 1;  // a block is wider than its sides
    const double side = largest * block * std::sqrt(static_cast<double>(LongestDrawn(row)) / most);
    picture = DrawTensor(*row.tensor, row.view, std::max(side, 0.38 * largest));
  }
  return pictures;
}

std::vector<std::pair<Drawing, std::string>> LegendOf(const PicturePage& page) {
  std::vector<std::pair<Drawing, std::string>> legend;
  const int64_t colours = std::min<int64_t>(page.ranks, kColours);
  Drawing ranks;
  for (int rank = 0; rank < static_cast<int>(colours); ++rank) {
    ranks.AddRect({static_cast<double>(rank) * 16, 0}, 16, 14, absl::StrCat("b ", ColourOf(rank)),
                  absl::StrCat("rank ", rank));
    ranks.AddText({static_cast<double>(rank) * 16 + 8, 11}, absl::StrCat(rank), TextStyle::kLabel, Anchor::kMiddle);
  }
  legend.emplace_back(std::move(ranks), page.ranks > kColours ? absl::StrCat("the part of a rank; rank ", kColours,
                                                                             " has the colour of rank 0, and so on")
                                                              : "the part of a rank");
  if (page.has_halos) {
    Drawing halo;
    halo.AddRect({0, 0}, 22, 14, "b r0");
    halo.AddRect({15, 0}, 7, 14, "ha");
    legend.emplace_back(std::move(halo), "halo: cells that the next layer reads and another rank holds");
  }
  if (page.has_copies) {
    legend.emplace_back(TwoRanks("o"), "B: the same on each of these ranks");
  }
  if (page.has_partial) {
    legend.emplace_back(TwoRanks("o q"), "P: each of these ranks has a term of the sum");
  }
  if (page.has_slices) {
    Drawing bar;
    bar.AddRect({0, 4}, 22, 6, "bo");
    bar.AddRect({0, 4}, 11, 6, "bf");
    legend.emplace_back(std::move(bar), "which part of the batch (N), the channels (C) is beside");
  }
  Drawing movement;
  movement.AddPolygon({{11, 2}, {16, 7}, {11, 12}, {6, 7}}, "mv");
  legend.emplace_back(std::move(movement), "what moves; bytes and messages of the busiest rank in a step");
  if (page.most_seconds > 0) {
    Drawing time;
    time.AddRect({0, 4}, 15, 6, "tm");
    time.AddRect({15, 4}, 7, 6, "tv");
    legend.emplace_back(std::move(time), "predicted time: computing, moving");
  }
  return legend;
}

}  // namespace adjoin
