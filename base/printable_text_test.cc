#include "base/printable_text.h"

#include <cstdint>
#include <random>
#include <string>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(PrintableTextTest, KeepsWholeCharacters) {
  const std::string text = "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\tend";
  EXPECT_EQ(PrintableText(text), text);
  EXPECT_TRUE(IsPrintableText(text));
}

TEST(PrintableTextTest, WritesOutWhatIsNoUtf8) {
  EXPECT_EQ(PrintableText("a\xff\x62\xc3"), "a\\xffb\\xc3");
  EXPECT_EQ(PrintableText("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(PrintableText("\xc0\xaf"), "\\xc0\\xaf") << "an overlong form";
  EXPECT_EQ(PrintableText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
}

TEST(PrintableTextTest, WritesOutControlCharacters) {
  EXPECT_EQ(PrintableText("\x1b[31mred\r\n"), "\\x1b[31mred\\r\\n");
  EXPECT_EQ(PrintableText(absl::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(PrintableText("\xc2\x9b"
                          "31m"),
            "\\x9b31m")
      << "the one-byte form of ESC [";
  EXPECT_EQ(PrintableText("\xe2\x80\xae"
                          "gnp"),
            "\\u202egnp")
      << "right to left";
  EXPECT_EQ(PrintableText("a\xe2\x80\xa8"
                          "b"),
            "a\\u2028b")
      << "a line separator";
}

TEST(PrintableTextTest, TellsHowMuchItLeftOut) {
  const std::string cut = PrintableText(std::string(1000, 'x'), 100);
  EXPECT_EQ(cut, std::string(52, 'x') + "... (948 more bytes)");
  EXPECT_EQ(PrintableText(std::string(100, 'x'), 100), std::string(100, 'x'));
}

TEST(PrintableTextTest, RandomBytesBecomePrintableAndStayWithinTheLimit) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const size_t limit = 48 + random() % 200;
    const std::string shown = PrintableText(bytes, limit);
    ASSERT_TRUE(IsPrintableText(shown)) << i;
    ASSERT_LE(shown.size(), limit) << i;
    ASSERT_EQ(PrintableText(shown), shown) << i;
    ASSERT_EQ(IsPrintableText(bytes), PrintableText(bytes) == bytes) << i;
  }
}

}  // namespace
}  // namespace adjoin
