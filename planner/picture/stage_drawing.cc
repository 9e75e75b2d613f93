#include "planner/picture/stage_drawing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/amount_text.h"
#include "planner/picture/row_texts.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

constexpr double kLeastColumn = 78, kGap = 12, kStep = 44, kBracket = 12;

struct Stage {
  int first = 0, end = 0;  // rows
  int shown = 0;           // the row whose tensor is drawn
  int level = 0;
  int64_t layers = 0;
  int64_t bytes = 0;
  std::set<int> inputs;  // stages
  TensorPicture picture;
  double left = 0, width = 0, top = 0;
};

std::vector<int64_t> SpaceOf(const PictureRow& row) {
  std::vector<int64_t> space;
  if (row.tensor == nullptr || row.view.Bars().empty()) return space;  // features have no space
  for (const int dim : row.view.Drawn()) space.push_back(row.tensor->shape()[dim]);
  return space;
}

// Rows with equal keys that follow each other are one stage.
std::string KeyOf(const PictureRow& row) {
  std::string key = absl::StrCat(absl::StrJoin(SpaceOf(row), "x"), "|", row.view.roles);
  if (row.tensor == nullptr) return key;
  const Layout& layout = row.tensor->layout();
  absl::StrAppend(&key, "|", layout.mesh().ToString());
  for (const Placement& placement : layout.placements()) absl::StrAppend(&key, " ", placement.ToString());
  return key;
}

std::vector<Stage> StagesOf(const std::vector<PictureRow>& rows) {
  std::vector<Stage> stages;
  std::vector<int> stage_of(rows.size(), -1);
  std::string key;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    const PictureRow& row = rows[i];
    if (row.kind == PictureRow::Kind::kLoss || row.kind == PictureRow::Kind::kOutput) continue;
    std::string own = KeyOf(row);
    if (stages.empty() || own != key) {
      stages.emplace_back();
      stages.back().first = stages.back().shown = i;
    }
    key = std::move(own);
    Stage& stage = stages.back();
    stage.end = i + 1;
    stage.layers += static_cast<int64_t>(row.layers.size());
    stage.bytes = row.bytes() > INT64_MAX - stage.bytes ? INT64_MAX : stage.bytes + row.bytes();
    if (row.tensor != nullptr && row.tensor->halos().size() > rows[stage.shown].tensor->halos().size()) stage.shown = i;
    stage_of[i] = static_cast<int>(stages.size()) - 1;
    for (const int input : row.inputs) {
      if (stage_of[input] >= 0 && stage_of[input] != stage_of[i]) stage.inputs.insert(stage_of[input]);
    }
  }
  return stages;
}

// Larger tensors are higher; features are below all.
void SetLevels(const std::vector<PictureRow>& rows, std::vector<Stage>& stages) {
  std::set<int64_t> volumes;
  const auto volume = [&](const Stage& stage) {
    const std::vector<int64_t> space = SpaceOf(rows[stage.shown]);
    return space.empty() ? -1 : VolumeOf(space);
  };
  for (const Stage& stage : stages) volumes.insert(volume(stage));
  for (Stage& stage : stages) {
    stage.level = static_cast<int>(std::distance(volumes.upper_bound(volume(stage)), volumes.end()));
  }
}

void AddStage(const std::vector<PictureRow>& rows, const Stage& stage, Drawing& drawing) {
  drawing.Add(stage.picture.drawing, stage.left + (stage.width - stage.picture.drawing.right()) / 2, stage.top);
  double y = stage.top + stage.picture.drawing.bottom() + 16;
  const double middle = stage.left + stage.width / 2, room = stage.width - 4;
  const auto line = [&](const std::string& text, TextStyle style) {
    drawing.AddText({middle, y}, FitText(text, style, room), style, Anchor::kMiddle);
    y += 14;
  };
  const PictureRow &first = rows[stage.first], &shown = rows[stage.shown];
  line(first.layers.empty() ? first.title : first.layers.front(), TextStyle::kSmall);
  if (stage.layers > 1) {
    line(absl::StrCat("… ", rows[stage.end - 1].layers.empty() ? "" : rows[stage.end - 1].layers.back()),
         TextStyle::kSmall);
  }
  std::vector<int64_t> sample = shown.tensor->shape();  // without the batch
  if (sample.size() > 1) sample.erase(sample.begin());
  line(ShapeText(sample), TextStyle::kSmall);
  if (stage.bytes > 0) {
    const std::string bytes = absl::StrCat("≤ ", BytesText(stage.bytes)), sent = absl::StrCat(bytes, " sent");
    line(TextWidth(sent, TextStyle::kSmall) <= room ? sent : bytes, TextStyle::kSmall);
  }
}

// Lines from stage to stage: to the next one between them, to others above all.
void AddEdges(const std::vector<Stage>& stages, double top, Drawing& drawing) {
  std::vector<std::pair<int, int>> skips;
  for (int to = 0; to < static_cast<int>(stages.size()); ++to) {
    for (const int from : stages[to].inputs) {
      if (from + 1 < to) {
        skips.emplace_back(from, to);
        continue;
      }
      const Stage &a = stages[from], &b = stages[to];
      const auto half = [](const Stage& stage) { return std::min(stage.picture.drawing.bottom() / 2, 30.0); };
      const double x0 = a.left + (a.width + a.picture.drawing.right()) / 2 + 3, y0 = a.top + half(a);
      const double x1 = b.left + (b.width - b.picture.drawing.right()) / 2 - 3, y1 = b.top + half(b);
      const double turn = b.left - kGap / 2;
      drawing.AddLine({{x0, y0}, {turn, y0}, {turn, y1}, {x1, y1}}, "ln");
      drawing.AddPolygon({{x1, y1}, {x1 - 5, y1 - 3}, {x1 - 5, y1 + 3}}, "mv");
    }
  }
  std::stable_sort(skips.begin(), skips.end(),
                   [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
  std::vector<std::vector<std::pair<int, int>>> taken;
  for (const auto& [from, to] : skips) {
    size_t height = 0;
    for (; height < taken.size(); ++height) {
      if (std::all_of(taken[height].begin(), taken[height].end(),
                      [&, a = from, b = to](const auto& other) { return other.second < a || b < other.first; }))
        break;
    }
    if (height == taken.size()) taken.emplace_back();
    taken[height].emplace_back(from, to);
    const Stage &a = stages[from], &b = stages[to];
    const double y = top - kBracket * static_cast<double>(height + 1);
    const double x0 = a.left + a.width / 2 + 5, x1 = b.left + b.width / 2 - 5;
    drawing.AddLine({{x0, a.top - 3}, {x0, y}, {x1, y}, {x1, b.top - 3}}, "ln");
    drawing.AddPolygon({{x1, b.top - 2}, {x1 - 3, b.top - 7}, {x1 + 3, b.top - 7}}, "mv");
  }
}

}  // namespace

Drawing DrawStages(const std::vector<PictureRow>& rows, double width) {
  std::vector<Stage> stages = StagesOf(rows);
  if (stages.size() < 3 || stages.size() > kMostStages) return {};
  SetLevels(rows, stages);
  std::vector<PictureRow> shown;
  for (const Stage& stage : stages) shown.push_back(rows[stage.shown]);
  std::vector<TensorPicture> pictures;
  double total = 0;
  for (double largest = 96; largest >= 48; largest -= 8) {
    pictures = PicturesOf(shown, largest);
    total = 0;
    for (const TensorPicture& picture : pictures) total += std::max(kLeastColumn, picture.drawing.right()) + kGap;
    if (total - kGap <= width) break;
  }
  if (total - kGap > width) return {};
  const double more = std::min(40.0, (width - total + kGap) / static_cast<double>(stages.size()));
  size_t skips = 0;
  for (int i = 0; i < static_cast<int>(stages.size()); ++i) {
    for (const int input : stages[i].inputs) skips += input + 1 < i ? 1 : 0;
  }
  const double top = 8 + kBracket * static_cast<double>(skips);
  double x = 0;
  Drawing drawing;
  for (size_t i = 0; i < stages.size(); ++i) {
    Stage& stage = stages[i];
    stage.picture = std::move(pictures[i]);
    stage.left = x;
    stage.width = std::max(kLeastColumn, stage.picture.drawing.right()) + more;
    stage.top = top + kStep * stage.level;
    x += stage.width + kGap;
  }
  AddEdges(stages, top - 2, drawing);
  for (const Stage& stage : stages) AddStage(rows, stage, drawing);
  return drawing;
}

}  // namespace adjoin
