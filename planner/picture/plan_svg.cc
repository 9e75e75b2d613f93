// PlanSvg: a plan as one drawing.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/picture/picture_style.h"
#include "planner/picture/plan_picture.h"
#include "planner/picture/row_folding.h"
#include "planner/picture/row_lanes.h"
#include "planner/picture/row_texts.h"
#include "planner/picture/stage_drawing.h"

namespace adjoin {
namespace {

constexpr double kWidth = 860, kMargin = 20, kInner = kWidth - 2 * kMargin;
constexpr double kSvgLane = 12, kLine = 15, kEdgeLine = 18, kSvgPictureSide = 84, kTimeBar = 160;
constexpr size_t kMostWarnings = 4;
constexpr double kLabelColumn = 110;

// A pen that goes down the page.
class Page {
 public:
  explicit Page(const PicturePage& page) : page_(page), rows_(FoldRows(page.rows)), lanes_(LanesOf(rows_)) {
    pictures_ = PicturesOf(rows_, kSvgPictureSide);
    for (const TensorPicture& picture : pictures_) picture_width_ = std::max(picture_width_, picture.drawing.right());
    spine_ = kMargin + 6 + kSvgLane * lanes_.lanes;
  }

  Drawing Draw() {
    DrawHead();
    DrawLegend();
    Drawing stages = DrawStages(page_.rows, kInner);
    if (!stages.shapes().empty()) {
      Rule();
      drawing_.Add(stages, kMargin + std::max(0.0, (kInner - stages.right()) / 2), y_);
      y_ += stages.bottom() + 14;
    }
    Rule();
    for (size_t i = 0; i < rows_.size(); ++i) DrawRow(static_cast<int>(i));
    DrawLanes();
    return std::move(drawing_);
  }

 private:
  void Rule() {
    drawing_.AddLine({{kMargin, y_}, {kWidth - kMargin, y_}}, "rule");
    y_ += 16;
  }

  // Writes the text in lines, at most so many.
  void Write(double x, double width, const std::string& text, TextStyle style, size_t lines) {
    for (const std::string& line : WrapText(text, style, width, lines)) {
      y_ += kLine;
      drawing_.AddText({x, y_ - 3}, line, style);
    }
  }

  void DrawHead() {
    y_ = kMargin + 20;
    drawing_.AddText({kMargin, y_}, FitText(page_.name, TextStyle::kHeading, kInner), TextStyle::kHeading);
    y_ += 4;
    Write(kMargin, kInner, page_.subtitle, TextStyle::kPlain, 2);
    y_ += 6;
    std::vector<std::pair<std::string, std::string>> totals = page_.totals;
    totals.emplace_back("meshes", absl::StrJoin(page_.meshes, "; "));
    for (size_t i = 0; i < page_.warnings.size() && i < kMostWarnings; ++i) {
      totals.emplace_back("note", page_.warnings[i]);
    }
    if (lanes_.left_out > 0) {
      totals.emplace_back("lines", absl::StrCat(lanes_.left_out,
                                                " tensors that are read further below have no line; "
                                                "their readers name them"));
    }
    for (const auto& [label, text] : totals) {
      drawing_.AddText({kMargin, y_ + kLine - 3}, label, TextStyle::kSmall);
      Write(kMargin + kLabelColumn, kInner - kLabelColumn, text, TextStyle::kPlain, 2);
    }
    y_ += 10;
  }

  void DrawLegend() {
    double x = kMargin;
    for (const auto& [sign, text] : LegendOf(page_)) {
      const double width = sign.right() + 8 + TextWidth(text, TextStyle::kSmall);
      if (x > kMargin && x + width > kWidth - kMargin) {
        x = kMargin;
        y_ += 20;
      }
      drawing_.Add(sign, x, y_);
      drawing_.AddText({x + sign.right() + 6, y_ + 11}, FitText(text, TextStyle::kSmall, kInner - sign.right() - 8),
                       TextStyle::kSmall);
      x += width + 18;
    }
    y_ += 28;
  }

  void DrawRow(int index) {
    const PictureRow& row = rows_[index];
    const TensorPicture& picture = pictures_[index];
    const double top = y_;
    entry_.push_back(top + (row.before.empty() ? 3 : 0));
    if (!row.before.empty()) y_ += 5;
    for (const MovementRow& movement : row.before) {
      const double middle = y_ + 9;
      signs_.push_back({spine_, middle});
      drawing_.AddText({spine_ + 14, middle + 4},
                       FitText(MovementText(movement), TextStyle::kPlain, kWidth - kMargin - spine_ - 14),
                       TextStyle::kPlain);
      y_ += kEdgeLine;
    }
    if (!row.before.empty()) y_ += 4;
    const double begin = y_;
    node_.push_back(begin + 12);
    const double left = spine_ + 16, text = left + picture_width_ + 18, width = kWidth - kMargin - text;
    if (!picture.drawing.shapes().empty()) drawing_.Add(picture.drawing, left, begin + 6);
    const double text_left = picture_width_ == 0 ? left : text;
    y_ = begin + 3;
    Write(text_left, width, row.title, TextStyle::kTitle, 2);
    if (row.peak) {
      y_ += kLine;
      drawing_.AddPolygon({{text_left + 5, y_ - 12}, {text_left + 10, y_ - 3}, {text_left, y_ - 3}}, "pk");
      drawing_.AddText({text_left + 15, y_ - 3}, "memory is fullest here", TextStyle::kPlain);
    }
    Write(text_left, width, row.what, TextStyle::kSmall, 3);
    if (!row.shape.empty()) {
      Write(text_left, width, absl::StrCat(row.shape, " · ", row.layout), TextStyle::kPlain, 2);
    }
    for (const std::string& line : SmallLines(row, picture.note)) Write(text_left, width, line, TextStyle::kSmall, 2);
    if (row.seconds() > 0 && page_.most_seconds > 0) DrawTime(row, text_left);
    y_ = std::max(y_, begin + 6 + picture.drawing.bottom()) + 14;
  }

  void DrawTime(const PictureRow& row, double left) {
    const double most = std::max(page_.most_seconds, row.seconds());
    const double computing = kTimeBar * (row.forward + row.backward) / most, moving = kTimeBar * row.movement / most;
    drawing_.AddRect({left, y_ + 3}, computing, 6, "tm");
    drawing_.AddRect({left + computing, y_ + 3}, moving, 6, "tv");
    y_ += 12;
  }

  void DrawLanes() {
    Drawing lines;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const int row = static_cast<int>(i);
      const double from = GoesOn(rows_, row) ? node_[i - 1] : entry_[i];
      if (GoesOn(rows_, row) || !rows_[i].inputs.empty()) lines.AddLine({{spine_, from}, {spine_, node_[i]}}, "ln");
    }
    for (const RowLanes::Lane& lane : lanes_.lane) {
      const double x = spine_ - kSvgLane * (lane.lane + 1), from = node_[lane.from];
      lines.AddLine({{spine_, from},
                     {x + 4, from},
                     {x, from + 4},
                     {x, entry_[lane.to.back()] - 4},
                     {x + 4, entry_[lane.to.back()]},
                     {spine_, entry_[lane.to.back()]}},
                    "ln");
      for (const int to : lane.to) {
        if (to != lane.to.back()) lines.AddLine({{x, entry_[to]}, {spine_, entry_[to]}}, "ln");
        lines.AddPolygon({{spine_, entry_[to]}, {spine_ - 6, entry_[to] - 3.5}, {spine_ - 6, entry_[to] + 3.5}}, "mv");
      }
    }
    for (const double node : node_) lines.AddCircle({spine_, node}, 4, "no");
    for (const Point& sign : signs_) {
      lines.AddPolygon({{sign.x, sign.y - 5}, {sign.x + 5, sign.y}, {sign.x, sign.y + 5}, {sign.x - 5, sign.y}}, "mv");
    }
    drawing_.Add(lines, 0, 0);
  }

  const PicturePage& page_;
  const std::vector<PictureRow> rows_;
  const RowLanes lanes_;
  std::vector<TensorPicture> pictures_;
  double picture_width_ = 0, spine_ = 0, y_ = 0;
  std::vector<double> entry_, node_;  // by row
  std::vector<Point> signs_;          // of movements
  Drawing drawing_;
};

}  // namespace

Drawing DrawPage(const PicturePage& page) { return Page(page).Draw(); }

std::string SvgFile(const Drawing& drawing, const std::string& title) {
  const double width = std::max(kWidth, drawing.right() + kMargin), height = drawing.bottom() + kMargin;
  return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", PixelText(width), "\" height=\"",
                      PixelText(height), "\" viewBox=\"0 0 ", PixelText(width), " ", PixelText(height),
                      "\" role=\"img\">\n<title>", XmlText(title), "</title>\n<style>", kShapeStyle, kFileColours,
                      "</style>\n", kHatch, "<rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"", PixelText(width - 1),
                      "\" height=\"", PixelText(height - 1), "\" rx=\"6\"/>\n", drawing.Elements(), "</svg>\n");
}

absl::StatusOr<std::string> PlanSvg(const Plan& plan, const PlanReport& report) {
  ADJOIN_ASSIGN_OR_RETURN(const PicturePage page, PicturePageOf(plan, report));
  return SvgFile(DrawPage(page), absl::StrCat("The plan of ", page.name));
}

absl::StatusOr<std::string> StagesSvg(const Plan& plan, const PlanReport& report) {
  ADJOIN_ASSIGN_OR_RETURN(const PicturePage page, PicturePageOf(plan, report));
  const Drawing stages = DrawStages(page.rows, kInner);
  if (stages.shapes().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", page.name, "\" has fewer than 3 or more than ", kMostStages, " stages, or too wide ones"));
  }
  Drawing drawing;
  drawing.Add(stages, kMargin + std::max(0.0, (kInner - stages.right()) / 2), kMargin);
  double x = kMargin, y = drawing.bottom() + 16;
  for (const auto& [sign, text] : LegendOf(page)) {
    const double width = sign.right() + 8 + TextWidth(text, TextStyle::kSmall);
    const bool drawn = text.find("what moves") == std::string::npos && text.find("predicted") == std::string::npos;
    if (!drawn) continue;
    if (x > kMargin && x + width > kWidth - kMargin) x = kMargin, y += 20;
    drawing.Add(sign, x, y);
    drawing.AddText({x + sign.right() + 6, y + 11}, text, TextStyle::kSmall);
    x += width + 18;
  }
  return SvgFile(drawing, absl::StrCat("How ", page.name, " is cut"));
}

}  // namespace adjoin
