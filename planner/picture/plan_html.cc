// PlanHtml: a plan as a page.
#include <algorithm>
#include <utility>
#include <vector>

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

constexpr double kHtmlLane = 8, kHtmlPictureSide = 84, kNode = 14, kEntry = 5;
constexpr size_t kMostNames = 2000;
constexpr char kPageStyle[] =
    "*{box-sizing:border-box}body{margin:0 auto;padding:16px;max-width:1100px;background:var(--ground);"
    "color:var(--ink);font:14px/1.45 system-ui,-apple-system,\"Segoe UI\",Roboto,Helvetica,Arial,\"DejaVu Sans\","
    "sans-serif}"
    "h1{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:15px;margin:20px 0 6px}"
    "p{margin:0 0 8px;overflow-wrap:anywhere}.soft{color:var(--soft)}"
    "dl{display:grid;grid-template-columns:minmax(80px,max-content) 1fr;gap:2px 14px;margin:8px 0}"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}"
    ".legend{display:flex;flex-wrap:wrap;gap:6px 18px;margin:10px 0;font-size:13px}"
    ".legend span{display:flex;gap:6px;align-items:center}.legend svg{flex:none}"
    ".wide{overflow-x:auto;border:1px solid var(--rule);border-radius:6px;padding:8px}.wide svg{display:block;margin:0 "
    "auto}"
    "ol{list-style:none;margin:0;padding:0}li{display:flex}.g{flex:none;position:relative;align-self:stretch}"
    ".g svg{position:absolute;inset:0;width:100%;height:100%}"
    ".e{padding:2px 0 2px 8px;min-width:0;overflow-wrap:anywhere}"
    ".n{display:flex;flex-wrap:wrap;gap:10px 18px;padding:3px 0 16px 10px;flex:1;min-width:0}"
    ".n>svg{flex:none;margin-top:4px;max-width:100%}.x{flex:1 1 250px;min-width:0;overflow-wrap:anywhere}"
    ".x p{margin:0 0 2px;font-size:13px}.x .name{font-size:15px;font-weight:600}.peak{color:var(--warn);"
    "font-weight:600}"
    ".bar{display:flex;height:8px;margin:5px 0;max-width:320px}.bar i{display:block;height:8px}"
    ".c{background:var(--line)}.m{background:var(--void)}details{font-size:13px}summary{cursor:pointer}"
    "svg{overflow:visible}";

std::string SvgOf(const Drawing& drawing) {
  const double width = drawing.right() + 1, height = drawing.bottom() + 1;
  return absl::StrCat("<svg width=\"", PixelText(width), "\" height=\"", PixelText(height), "\" viewBox=\"-0.5 -0.5 ",
                      PixelText(width), " ", PixelText(height), "\" role=\"img\">\n", drawing.Elements(), "</svg>");
}

std::string Paragraph(const std::string& text, const std::string& style = "") {
  return absl::StrCat("<p", style.empty() ? "" : absl::StrCat(" class=\"", style, "\""), ">", XmlText(text), "</p>\n");
}

class HtmlPage {
 public:
  explicit HtmlPage(const PicturePage& page)
      : page_(page),
        rows_(FoldRows(page.rows)),
        lanes_(LanesOf(rows_)),
        pictures_(PicturesOf(rows_, kHtmlPictureSide)),
        spine_(8 + kHtmlLane * lanes_.lanes) {}

  std::string Text() {
    text_ = absl::StrCat(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
        "<title>",
        XmlText(page_.name), "</title>\n<style>", kPageColours, kShapeStyle, kPageStyle,
        "</style>\n</head>\n<body>\n<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\">",
        kHatch, "</svg>\n");
    AddHead();
    const Drawing stages = DrawStages(page_.rows, 1040);
    if (!stages.shapes().empty()) {
      absl::StrAppend(&text_, "<h2>At a glance</h2>\n<div class=\"wide\" tabindex=\"0\">", SvgOf(stages), "</div>\n");
    }
    absl::StrAppend(&text_, "<h2>Layers and what moves between them</h2>\n<ol>\n");
    for (size_t i = 0; i < rows_.size(); ++i) AddRow(static_cast<int>(i));
    absl::StrAppend(&text_, "</ol>\n</body>\n</html>\n");
    return std::move(text_);
  }

 private:
  void AddHead() {
    absl::StrAppend(&text_, "<h1>", XmlText(page_.name), "</h1>\n", Paragraph(page_.subtitle, "soft"), "<dl>\n");
    std::vector<std::pair<std::string, std::string>> totals = page_.totals;
    totals.emplace_back("meshes", absl::StrJoin(page_.meshes, "; "));
    totals.emplace_back("plan", page_.plan);
    for (const std::string& warning : page_.warnings) totals.emplace_back("note", warning);
    if (lanes_.left_out > 0) {
      totals.emplace_back("lines", absl::StrCat(lanes_.left_out,
                                                " tensors that are read further below have no line; "
                                                "their readers name them"));
    }
    for (const auto& [label, text] : totals) {
      absl::StrAppend(&text_, "<dt>", XmlText(label), "</dt><dd>", XmlText(text), "</dd>\n");
    }
    absl::StrAppend(&text_, "</dl>\n<div class=\"legend\">\n");
    for (const auto& [sign, text] : LegendOf(page_)) {
      absl::StrAppend(&text_, "<span>", SvgOf(sign), XmlText(text), "</span>\n");
    }
    absl::StrAppend(&text_, "</div>\n<p class=\"soft\">A pointer over a box shows its ranks and its cells.</p>\n");
  }

  static std::string Line(double x0, const std::string& y0, double x1, const std::string& y1) {
    return absl::StrCat("<line class=\"ln\" x1=\"", PixelText(x0), "\" y1=\"", y0, "\" x2=\"", PixelText(x1),
                        "\" y2=\"", y1, "\"/>");
  }

  // The lines beside a row, or beside what moves before it. `first`, `last`: of the row's two parts, which may be one.
  std::string Gutter(int row, bool first, bool last, bool sign) const {
    const std::string node = PixelText(kNode), entry = PixelText(kEntry);
    std::string lines;
    const bool reads = !rows_[row].inputs.empty();
    if (reads) {
      const std::string begin = first && !GoesOn(rows_, row) ? entry : "0";
      absl::StrAppend(&lines, Line(spine_, begin, spine_, last ? node : "100%"));
    }
    if (last && row + 1 < static_cast<int>(rows_.size()) && GoesOn(rows_, row + 1)) {
      absl::StrAppend(&lines, Line(spine_, node, spine_, "100%"));
    }
    for (const RowLanes::Lane& lane : lanes_.lane) {
      const double x = spine_ - kHtmlLane * (lane.lane + 1);
      const int to = lane.to.back();
      if (row < lane.from || row > to) continue;
      if (row == lane.from) {
        if (last) absl::StrAppend(&lines, Line(spine_, node, x, node), Line(x, node, x, "100%"));
        continue;
      }
      if (row < to) absl::StrAppend(&lines, Line(x, "0", x, "100%"));
      if (row == to && first) absl::StrAppend(&lines, Line(x, "0", x, entry));
      if (first && std::find(lane.to.begin(), lane.to.end(), row) != lane.to.end()) {
        absl::StrAppend(&lines, Line(x, entry, spine_, entry), "<polygon class=\"mv\" points=\"", PixelText(spine_),
                        ",", entry, " ", PixelText(spine_ - 5), ",", PixelText(kEntry - 3), " ", PixelText(spine_ - 5),
                        ",", PixelText(kEntry + 3), "\"/>");
      }
    }
    if (sign) {
      absl::StrAppend(&lines, "<polygon class=\"mv\" points=\"", PixelText(spine_), ",9 ", PixelText(spine_ + 5),
                      ",14 ", PixelText(spine_), ",19 ", PixelText(spine_ - 5), ",14\"/>");
    } else {
      absl::StrAppend(&lines, "<circle class=\"no\" cx=\"", PixelText(spine_), "\" cy=\"", node, "\" r=\"4\"/>");
    }
    return absl::StrCat("<div class=\"g\" style=\"width:", PixelText(spine_ + 7), "px\"><svg aria-hidden=\"true\">",
                        lines, "</svg></div>");
  }

  void AddRow(int index) {
    const PictureRow& row = rows_[index];
    bool first = true;
    for (const MovementRow& movement : row.before) {
      absl::StrAppend(&text_, "<li>", Gutter(index, first, false, true), "<div class=\"e\">",
                      XmlText(MovementText(movement)), "</div></li>\n");
      first = false;
    }
    const TensorPicture& picture = pictures_[index];
    absl::StrAppend(&text_, "<li>", Gutter(index, first, true, false), "<div class=\"n\">");
    if (!picture.drawing.shapes().empty()) absl::StrAppend(&text_, SvgOf(picture.drawing), "\n");
    absl::StrAppend(&text_, "<div class=\"x\">\n", Paragraph(row.title, "name"));
    if (row.peak) absl::StrAppend(&text_, Paragraph("▲ memory is fullest here", "peak"));
    absl::StrAppend(&text_, Paragraph(row.what, "soft"));
    if (!row.shape.empty()) absl::StrAppend(&text_, Paragraph(absl::StrCat(row.shape, " · ", row.layout)));
    for (const std::string& line : SmallLines(row, picture.note)) absl::StrAppend(&text_, Paragraph(line));
    if (row.seconds() > 0 && page_.most_seconds > 0) AddTime(row);
    if (row.kind == PictureRow::Kind::kFolded || row.kind == PictureRow::Kind::kLeftOut) AddNames(row);
    absl::StrAppend(&text_, "</div></div></li>\n");
  }

  void AddTime(const PictureRow& row) {
    const double most = std::max(page_.most_seconds, row.seconds());
    absl::StrAppend(&text_, "<div class=\"bar\"><i class=\"c\" style=\"width:",
                    PixelText(100 * (row.forward + row.backward) / most),
                    "%\"></i><i class=\"m\" style=\"width:", PixelText(100 * row.movement / most), "%\"></i></div>\n");
  }

  void AddNames(const PictureRow& row) {
    std::vector<std::string> names(row.layers.begin(), row.layers.begin() + std::min(row.layers.size(), kMostNames));
    if (names.size() < row.layers.size()) names.push_back("…");
    absl::StrAppend(&text_, "<details><summary>", row.layers.size(), " layers</summary>",
                    Paragraph(absl::StrJoin(names, ", ")), "</details>\n");
  }

  const PicturePage& page_;
  const std::vector<PictureRow> rows_;
  const RowLanes lanes_;
  const std::vector<TensorPicture> pictures_;
  const double spine_;
  std::string text_;
};

}  // namespace

absl::StatusOr<std::string> PlanHtml(const Plan& plan, const PlanReport& report) {
  ADJOIN_ASSIGN_OR_RETURN(const PicturePage page, PicturePageOf(plan, report));
  return HtmlPage(page).Text();
}

}  // namespace adjoin
