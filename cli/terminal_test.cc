#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(TerminalTest, LinesThatAreTooLongEndInAnEllipsis) {
  EXPECT_EQ(CutLines("abcdef\nab\n\nabcd\n", 4), "abc\u2026\nab\n\nabcd\n");
  EXPECT_EQ(CutLines("abcdef\n", 0), "abcdef\n");
  EXPECT_EQ(CutLines("abcdef", 6), "abcdef");
  EXPECT_EQ(CutLines("abcdef", 1), "\u2026");
  EXPECT_EQ(CutLines("\u00e9\u00e9\u00e9\u00e9", 3), "\u00e9\u00e9\u2026") << "characters, not bytes";
  EXPECT_EQ(CutLines("", 3), "");
}

TEST(TerminalTest, TheFirstLines) {
  EXPECT_EQ(FirstLines("a\nb\nc\n", 2), "a\nb\n");
  EXPECT_EQ(FirstLines("a\nb", 2), "a\nb");
  EXPECT_EQ(FirstLines("a\nb\n", 0), "a\nb\n");
  EXPECT_EQ(FirstLines("", 2), "");
}

}  // namespace
}  // namespace adjoin
