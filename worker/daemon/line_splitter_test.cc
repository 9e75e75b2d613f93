#include "worker/daemon/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineSplitterTest, JoinsPartsOfLines) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("one\n\ntw"), ElementsAre("one", ""));
  EXPECT_THAT(splitter.Add("o\r\nthree"), ElementsAre("two"));
  EXPECT_THAT(splitter.Finish(), ElementsAre("three"));
  EXPECT_THAT(splitter.Finish(), IsEmpty());
}

TEST(LineSplitterTest, CutsLongLines) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add(std::string(3000, 'x')), IsEmpty());
  EXPECT_THAT(splitter.Add(std::string(3000, 'y') + "\nnext\n"),
              ElementsAre(std::string(3000, 'x') + std::string(1096, 'y') + "...", "next"));
}

TEST(LineSplitterTest, KeepsOnlyText) {
  EXPECT_EQ(CleanText("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(CleanText("a\xff\x62\xc3"), "a?b?");
  EXPECT_EQ(CleanText("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(CleanText("\xc0\xaf"), "??") << "an overlong form";
  EXPECT_EQ(CleanText("\x1b[31mred\t1"), " [31mred\t1");
}

}  // namespace
}  // namespace adjoin
