#include "base/text_table.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(TextTableTest, ColumnsAlign) {
  EXPECT_EQ(TextTable({{"A", "B"}, {"long", "x"}, {"y"}}), "A     B\nlong  x\ny\n");
  EXPECT_EQ(TextTable({{"A", "B"}, {"", "x"}}, {.indent = 2, .gap = 3}), "  A   B\n      x\n");
  EXPECT_EQ(TextTable({}), "");
}

TEST(TextTableTest, NoCellLeavesItsRow) { EXPECT_EQ(TextTable({{"a\nb\x1b[2J", "x\xff"}}), "a\\nb\\x1b[2J  x\\xff\n"); }

}  // namespace
}  // namespace adjoin
