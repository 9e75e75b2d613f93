#include "planner/picture/drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

constexpr size_t kMostTextBytes = 4096;
constexpr absl::string_view kEllipsis = "…";

// Returns how many bytes the character at the beginning of `text`, which is not empty, has.
size_t CharacterBytes(absl::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
  return bytes;
}

// Returns a character's width in letter heights: DejaVu Sans has them, which is wider than what pages usually have.
double CharacterWidth(absl::string_view character, bool bold) {
  double width = 1.05;  // of scripts that are not known here
  if (character.size() == 1) {
    const char c = character[0];
    if (absl::StrContains("ijl.,:;'|!I", c)) {
      width = 0.34;
    } else if (absl::StrContains("frt()[]{}/\\-\" ", c)) {
      width = 0.43;
    } else if (absl::StrContains("mwMW@%", c)) {
      width = 1.0;
    } else if ((c >= 'A' && c <= 'Z') || absl::StrContains("+=<>~^#&_", c)) {
      width = 0.81;
    } else {
      width = 0.645;
    }
  } else if (character == "·" || character == "’") {
    width = 0.35;
  } else if (character == "×") {
    width = 0.84;
  }
  return bold ? width * 1.12 : width;
}

std::string AnchorText(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart: return "";
    case Anchor::kMiddle: return " text-anchor=\"middle\"";
    case Anchor::kEnd: return " text-anchor=\"end\"";
  }
  return "";
}

std::string ClassOf(TextStyle style) {
  switch (style) {
    case TextStyle::kHeading: return "h";
    case TextStyle::kTitle: return "t";
    case TextStyle::kPlain: return "p";
    case TextStyle::kSmall: return "s";
    case TextStyle::kLabel: return "l";
  }
  return "p";
}

std::string PointsText(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) {
    absl::StrAppend(&text, text.empty() ? "" : " ", PixelText(point.x), ",", PixelText(point.y));
  }
  return text;
}

// Ends an element: with its title inside, where it has one.
std::string EndOf(absl::string_view name, const std::string& title) {
  return title.empty() ? "/>" : absl::StrCat("><title>", XmlText(title), "</title></", name, ">");
}

}  // namespace

double SizeOf(TextStyle style) {
  switch (style) {
    case TextStyle::kHeading: return 18;
    case TextStyle::kTitle: return 13;
    case TextStyle::kPlain: return 12;
    case TextStyle::kSmall:
    case TextStyle::kLabel: return 11;
  }
  return 12;
}

double TextWidth(absl::string_view text, TextStyle style) {
  const bool bold = style == TextStyle::kHeading || style == TextStyle::kTitle;
  double width = 0;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    width += CharacterWidth(text.substr(0, bytes), bold);
    text.remove_prefix(bytes);
  }
  return width * SizeOf(style);
}

std::string FitText(absl::string_view text, TextStyle style, double width) {
  const std::string shown = PrintableText(text, kMostTextBytes);
  if (TextWidth(shown, style) <= width) return shown;
  const double room = width - TextWidth(kEllipsis, style);
  double so_far = 0;
  size_t end = 0;
  while (end < shown.size()) {
    const size_t bytes = CharacterBytes(absl::string_view(shown).substr(end));
    so_far += TextWidth(absl::string_view(shown).substr(end, bytes), style);
    if (so_far > room) break;
    end += bytes;
  }
  while (end > 0 && shown[end - 1] == ' ') --end;
  return absl::StrCat(shown.substr(0, end), kEllipsis);
}

std::vector<std::string> WrapText(absl::string_view text, TextStyle style, double width, size_t lines) {
  const std::string shown = PrintableText(text, kMostTextBytes);
  std::vector<std::string> wrapped;
  std::string line;
  std::vector<absl::string_view> words = absl::StrSplit(shown, ' ', absl::SkipEmpty());
  for (size_t i = 0; i < words.size(); ++i) {
    std::string longer = line.empty() ? std::string(words[i]) : absl::StrCat(line, " ", words[i]);
    if (line.empty() || TextWidth(longer, style) <= width) {
      line = std::move(longer);
      continue;
    }
    if (wrapped.size() + 1 == lines) {
      line = absl::StrCat(line, " ", kEllipsis);
      while (TextWidth(line, style) > width && line.size() > kEllipsis.size() + 1) {
        const size_t space = line.rfind(' ', line.size() - kEllipsis.size() - 2);
        if (space == std::string::npos) break;
        line = absl::StrCat(line.substr(0, space), " ", kEllipsis);
      }
      break;
    }
    wrapped.push_back(FitText(line, style, width));
    line = std::string(words[i]);
  }
  if (!line.empty()) wrapped.push_back(FitText(line, style, width));
  return wrapped;
}

std::string XmlText(absl::string_view text) {
  const std::string shown = PrintableText(text, kMostTextBytes);
  std::string xml;
  for (size_t i = 0; i < shown.size(); ++i) {
    const char c = shown[i];
    switch (c) {
      case '&': xml += "&amp;"; break;
      case '<': xml += "&lt;"; break;
      case '>': xml += "&gt;"; break;
      case '"': xml += "&quot;"; break;
      case '\'': xml += "&#39;"; break;
      case '\t': xml += ' '; break;
      default:
        // U+FFFE and U+FFFF are no characters of XML.
        if (absl::StartsWith(absl::string_view(shown).substr(i), "\xef\xbf\xbe") ||
            absl::StartsWith(absl::string_view(shown).substr(i), "\xef\xbf\xbf")) {
          xml += "\xef\xbf\xbd";
          i += 2;
        } else {
          xml += c;
        }
    }
  }
  return xml;
}

std::string PixelText(double value) {
  const int64_t tenths = static_cast<int64_t>(std::llround(value * 10));
  const int64_t rest = std::abs(tenths) % 10;
  return absl::StrCat(tenths < 0 && tenths > -10 ? "-" : "", tenths / 10, rest == 0 ? "" : absl::StrCat(".", rest));
}

void Drawing::Keep(Shape shape) {
  const Bounds bounds = BoundsOf(shape);
  right_ = std::max(right_, bounds.right);
  bottom_ = std::max(bottom_, bounds.bottom);
  shapes_.push_back(std::move(shape));
}

Drawing::Bounds Drawing::BoundsOf(const Shape& shape) {
  const Point& first = shape.points.front();
  switch (shape.kind) {
    case Kind::kRect: return {first.x, first.y, first.x + shape.width, first.y + shape.height};
    case Kind::kCircle:
      return {first.x - shape.width, first.y - shape.width, first.x + shape.width, first.y + shape.width};
    case Kind::kText: {
      const double width = TextWidth(shape.text, shape.text_style), size = SizeOf(shape.text_style);
      const double left = first.x - (shape.anchor == Anchor::kStart    ? 0
                                     : shape.anchor == Anchor::kMiddle ? width / 2
                                                                       : width);
      return {left, first.y - size * 0.8, left + width, first.y + size * 0.25};
    }
    case Kind::kPolygon:
    case Kind::kLine: break;
  }
  Bounds bounds{first.x, first.y, first.x, first.y};
  for (const Point& point : shape.points) {
    bounds.left = std::min(bounds.left, point.x);
    bounds.top = std::min(bounds.top, point.y);
    bounds.right = std::max(bounds.right, point.x);
    bounds.bottom = std::max(bounds.bottom, point.y);
  }
  return bounds;
}

void Drawing::AddRect(Point corner, double width, double height, absl::string_view style, absl::string_view title) {
  Shape shape;
  shape.kind = Kind::kRect;
  shape.style = std::string(style);
  shape.points = {corner};
  shape.width = width;
  shape.height = height;
  shape.text = std::string(title);
  Keep(std::move(shape));
}

void Drawing::AddPolygon(std::vector<Point> points, absl::string_view style, absl::string_view title) {
  if (points.empty()) return;
  Shape shape;
  shape.kind = Kind::kPolygon;
  shape.style = std::string(style);
  shape.points = std::move(points);
  shape.text = std::string(title);
  Keep(std::move(shape));
}

void Drawing::AddLine(std::vector<Point> points, absl::string_view style) {
  if (points.empty()) return;
  Shape shape;
  shape.kind = Kind::kLine;
  shape.style = std::string(style);
  shape.points = std::move(points);
  Keep(std::move(shape));
}

void Drawing::AddCircle(Point centre, double radius, absl::string_view style) {
  Shape shape;
  shape.kind = Kind::kCircle;
  shape.style = std::string(style);
  shape.points = {centre};
  shape.width = radius;
  Keep(std::move(shape));
}

void Drawing::AddText(Point at, absl::string_view text, TextStyle style, Anchor anchor) {
  if (text.empty()) return;
  Shape shape;
  shape.kind = Kind::kText;
  shape.points = {at};
  shape.text = PrintableText(text, kMostTextBytes);
  shape.text_style = style;
  shape.anchor = anchor;
  Keep(std::move(shape));
}

void Drawing::Add(const Drawing& other, double dx, double dy) {
  for (Shape shape : other.shapes_) {
    for (Point& point : shape.points) {
      point.x += dx;
      point.y += dy;
    }
    Keep(std::move(shape));
  }
}

std::string Drawing::Elements() const {
  std::string text;
  for (const Shape& shape : shapes_) {
    const Point& first = shape.points.front();
    switch (shape.kind) {
      case Kind::kRect:
        absl::StrAppend(&text, "<rect class=\"", shape.style, "\" x=\"", PixelText(first.x), "\" y=\"",
                        PixelText(first.y), "\" width=\"", PixelText(shape.width), "\" height=\"",
                        PixelText(shape.height), "\"", EndOf("rect", shape.text), "\n");
        break;
      case Kind::kPolygon:
        absl::StrAppend(&text, "<polygon class=\"", shape.style, "\" points=\"", PointsText(shape.points), "\"",
                        EndOf("polygon", shape.text), "\n");
        break;
      case Kind::kLine:
        absl::StrAppend(&text, "<polyline class=\"", shape.style, "\" points=\"", PointsText(shape.points), "\"/>\n");
        break;
      case Kind::kCircle:
        absl::StrAppend(&text, "<circle class=\"", shape.style, "\" cx=\"", PixelText(first.x), "\" cy=\"",
                        PixelText(first.y), "\" r=\"", PixelText(shape.width), "\"/>\n");
        break;
      case Kind::kText:
        absl::StrAppend(&text, "<text class=\"", ClassOf(shape.text_style), "\" x=\"", PixelText(first.x), "\" y=\"",
                        PixelText(first.y), "\"", AnchorText(shape.anchor), ">", XmlText(shape.text), "</text>\n");
        break;
    }
  }
  return text;
}

}  // namespace adjoin
