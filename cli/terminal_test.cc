#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

constexpr char kEllipsis[] = "\u2026", kPoints[] = "...";

TEST(TerminalTest, LinesThatAreTooLongEndInAnEllipsis) {
  EXPECT_EQ(CutLines("abcdef\nab\n\nabcd\n", 4, kEllipsis), "abc\u2026\nab\n\nabcd\n");
  EXPECT_EQ(CutLines("abcdef\n", 0, kEllipsis), "abcdef\n");
  EXPECT_EQ(CutLines("abcdef", 6, kEllipsis), "abcdef");
  EXPECT_EQ(CutLines("abcdef", 1, kEllipsis), "\u2026");
  EXPECT_EQ(CutLines("\u00e9\u00e9\u00e9\u00e9", 3, kEllipsis), "\u00e9\u00e9\u2026") << "characters, not bytes";
  EXPECT_EQ(CutLines("", 3, kEllipsis), "");
}

TEST(TerminalTest, OrInPoints) {
  EXPECT_EQ(CutLines("abcdef\nab\n\nabcd\n", 4, kPoints), "a...\nab\n\nabcd\n");
  EXPECT_EQ(CutLines("abcdef\n", 0, kPoints), "abcdef\n");
  EXPECT_EQ(CutLines("abcdef", 6, kPoints), "abcdef");
  EXPECT_EQ(CutLines("abcdef\nabcd\nabc", 3, kPoints), "...\n...\nabc");
  EXPECT_EQ(CutLines("abcdef\n", 2, kPoints), "..\n") << "no more than fits";
  EXPECT_EQ(CutLines("\u00e9\u00e9\u00e9\u00e9\u00e9", 4, kPoints), "\u00e9...");
}

TEST(TerminalTest, AnEllipsisIsForLocalesOfUtf8) {
  for (const char* utf8 : {"de_DE.UTF-8", "C.UTF-8", "C.utf8", "en_US.utf8", "de_DE.UTF-8@euro"}) {
    EXPECT_EQ(CutMark(utf8, nullptr, nullptr), kEllipsis) << utf8;
    EXPECT_EQ(CutMark(nullptr, utf8, "C"), kEllipsis) << utf8;
    EXPECT_EQ(CutMark("", "", utf8), kEllipsis) << utf8;
  }
  for (const char* other : {"C", "POSIX", "de_DE", "de_DE@euro", "de_DE.ISO-8859-15@euro", "ja_JP.eucJP", "UTF-8"}) {
    EXPECT_EQ(CutMark(other, "C.UTF-8", "C.UTF-8"), kPoints) << other;
    EXPECT_EQ(CutMark(nullptr, other, "C.UTF-8"), kPoints) << other;
    EXPECT_EQ(CutMark(nullptr, "", other), kPoints) << other;
  }
  EXPECT_EQ(CutMark(nullptr, nullptr, nullptr), kPoints) << "the locale C";
}

TEST(TerminalTest, TheFirstLines) {
  EXPECT_EQ(FirstLines("a\nb\nc\n", 2), "a\nb\n");
  EXPECT_EQ(FirstLines("a\nb", 2), "a\nb");
  EXPECT_EQ(FirstLines("a\nb\n", 0), "a\nb\n");
  EXPECT_EQ(FirstLines("", 2), "");
}

}  // namespace
}  // namespace adjoin
