#include "cli/csv.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(CsvTest, QuotesWhatAReaderWouldSplit) {
  EXPECT_EQ(CsvLine({"step", "a,b", "say \"x\"", ""}), "step,\"a,b\",\"say \"\"x\"\"\",\n");
  EXPECT_EQ(CsvLine({}), "\n");
}

TEST(CsvTest, NoTextIsAFormula) {
  EXPECT_EQ(CsvCell("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
  EXPECT_EQ(CsvCell("@SUM(A1)"), "\"'@SUM(A1)\"");
  EXPECT_EQ(CsvCell("+1+cmd"), "\"'+1+cmd\"");
  EXPECT_EQ(CsvCell("-layer"), "\"'-layer\"");
  EXPECT_EQ(CsvCell("\t=1"), "\"'\t=1\"");
  EXPECT_EQ(CsvCell("\uff1d1+1"), "\"'\uff1d1+1\"");
  for (const char* number : {"-1", "-0.25", "+3", "-1.5e-07", "0", "12"}) EXPECT_EQ(CsvCell(number), number);
  EXPECT_EQ(CsvCell("-"), "\"'-\"");
  EXPECT_EQ(CsvCell("-inf"), "\"'-inf\"") << "a text: JSON has no such number";
}

TEST(CsvTest, NothingReachesATerminalRaw) {
  EXPECT_EQ(CsvCell("a\x1b[31mb\nc\xff"), "a\\x1b[31mb\\nc\\xff");
  EXPECT_EQ(CsvCell("\r=1"), "\\r=1") << "the carriage return is written out, so nothing begins with it";
}

}  // namespace
}  // namespace adjoin
