#include "planner/picture/drawing.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(Drawing, WritesNumbersWithAtMostOneDecimal) {
  EXPECT_EQ(PixelText(12), "12");
  EXPECT_EQ(PixelText(12.04), "12");
  EXPECT_EQ(PixelText(12.06), "12.1");
  EXPECT_EQ(PixelText(-0.26), "-0.3");
  EXPECT_EQ(PixelText(-3.5), "-3.5");
}

TEST(Drawing, EscapesWhatIsMarkup) {
  EXPECT_EQ(XmlText("<script>alert(\"x\" & 'y')</script>"),
            "&lt;script&gt;alert(&quot;x&quot; &amp; &#39;y&#39;)&lt;/script&gt;");
  EXPECT_EQ(XmlText("a\x1b[31m\x01"
                    "b"),
            "a\\x1b[31m\\x01b");
  EXPECT_EQ(XmlText("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(XmlText("a\tb"), "a b");
  EXPECT_THAT(XmlText("\xef\xbf\xbf"), Not(HasSubstr("\xef\xbf\xbf"))) << "U+FFFF is no character of XML";
  EXPECT_LE(XmlText(std::string(1000000, 'a')).size(), 5000u);
}

TEST(Drawing, CutsTextWhereItDoesNotFit) {
  EXPECT_EQ(FitText("conv1", TextStyle::kPlain, 100), "conv1");
  for (const double width : {20.0, 50.0, 120.0}) {
    const std::string cut = FitText("a name that is much too long to be shown", TextStyle::kPlain, width);
    EXPECT_LE(TextWidth(cut, TextStyle::kPlain), width);
    EXPECT_THAT(cut, HasSubstr("…"));
  }
  const std::string cut = FitText("ééééééééééééé", TextStyle::kPlain, 60);
  EXPECT_THAT(cut, Not(HasSubstr("\\x"))) << "no half of a character";
}

TEST(Drawing, WrapsAtSpaces) {
  const std::string text = "one two three four five six seven eight nine ten";
  for (const std::string& line : WrapText(text, TextStyle::kPlain, 80, 20)) {
    EXPECT_LE(TextWidth(line, TextStyle::kPlain), 80) << line;
  }
  const auto two = WrapText(text, TextStyle::kPlain, 80, 2);
  ASSERT_THAT(two, SizeIs(2));
  EXPECT_THAT(two[1], HasSubstr("…"));
  EXPECT_LE(TextWidth(two[1], TextStyle::kPlain), 80);
  const auto long_word = WrapText(std::string(5000, 'x'), TextStyle::kPlain, 80, 3);
  EXPECT_LE(long_word.size(), 3u);
  for (const std::string& line : long_word) EXPECT_LE(TextWidth(line, TextStyle::kPlain), 80) << line;
}

TEST(Drawing, MovesWhatItAdds) {
  Drawing inner;
  inner.AddRect({1, 2}, 10, 20, "r0", "a & b");
  inner.AddText({5, 30}, "0", TextStyle::kLabel, Anchor::kMiddle);
  Drawing drawing;
  drawing.Add(inner, 100, 200);
  EXPECT_EQ(drawing.Elements(),
            "<rect class=\"r0\" x=\"101\" y=\"202\" width=\"10\" height=\"20\"><title>a &amp; b</title></rect>\n"
            "<text class=\"l\" x=\"105\" y=\"230\" text-anchor=\"middle\">0</text>\n");
  EXPECT_EQ(drawing.right(), 111);
  EXPECT_GE(drawing.bottom(), 230);
}

}  // namespace
}  // namespace adjoin
