// A drawing of rectangles, polygons, lines and texts, and its SVG elements.
//
//   Drawing drawing;
//   drawing.AddRect({0, 0}, 40, 20, "r0", "rank 0: [0, 4) x [0, 2)");
//   drawing.AddText({20, 14}, "0", TextStyle::kLabel, Anchor::kMiddle);
//   row.Add(drawing, 120, 40);
//   row.Elements();            // "<rect class=..."
//
// Equal drawings give equal bytes: numbers have at most one decimal. Texts are escaped, and what no page should show
// is written out (base/printable_text.h). How a class looks is said by the page (picture_style.h).
#ifndef ADJOIN_PLANNER_PICTURE_DRAWING_H_
#define ADJOIN_PLANNER_PICTURE_DRAWING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

struct Point {
  double x = 0;
  double y = 0;
};

enum class TextStyle { kHeading, kTitle, kPlain, kSmall, kLabel };
enum class Anchor { kStart, kMiddle, kEnd };

// The height of a style's letters, in pixels: 11 or more.
double SizeOf(TextStyle style);

// Returns at least how wide a browser draws the text: the letters of a wide font are counted.
double TextWidth(absl::string_view text, TextStyle style);
// Returns the text, or as much of its beginning as fits, with "…" for the rest.
std::string FitText(absl::string_view text, TextStyle style, double width);
// Returns lines that fit, broken at spaces, of at most `lines`; the last one ends with "…" where something is missing.
std::vector<std::string> WrapText(absl::string_view text, TextStyle style, double width, size_t lines);

// Returns the text for an element or an attribute: escaped, printable, of at most 4,096 bytes.
std::string XmlText(absl::string_view text);

class Drawing {
 public:
  enum class Kind { kRect, kPolygon, kLine, kCircle, kText };
  struct Shape {
    Kind kind = Kind::kRect;
    std::string style;             // the class, or of a text nothing
    std::vector<Point> points;     // a rectangle's low corner; a circle's centre; where a text's line begins
    double width = 0, height = 0;  // of a rectangle; a circle's radius is `width`
    std::string text;              // a text's; of others what a pointer over them shows
    TextStyle text_style = TextStyle::kPlain;
    Anchor anchor = Anchor::kStart;
  };
  // The box around a shape; of a text by its estimated width.
  struct Bounds {
    double left = 0, top = 0, right = 0, bottom = 0;
  };

  void AddRect(Point corner, double width, double height, absl::string_view style, absl::string_view title = "");
  void AddPolygon(std::vector<Point> points, absl::string_view style, absl::string_view title = "");
  void AddLine(std::vector<Point> points, absl::string_view style);
  void AddCircle(Point centre, double radius, absl::string_view style);
  // `at`: on the base line.
  void AddText(Point at, absl::string_view text, TextStyle style, Anchor anchor = Anchor::kStart);
  // Adds the other one's shapes, moved.
  void Add(const Drawing& other, double dx, double dy);

  const std::vector<Shape>& shapes() const { return shapes_; }
  static Bounds BoundsOf(const Shape& shape);
  double right() const { return right_; }    // of all shapes, 0 or more
  double bottom() const { return bottom_; }  // likewise

  // SVG elements, one a line.
  std::string Elements() const;

 private:
  void Keep(Shape shape);

  std::vector<Shape> shapes_;
  double right_ = 0, bottom_ = 0;
};

// Returns a number of pixels as SVG has it: "12", "12.5".
std::string PixelText(double value);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_DRAWING_H_
