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

TEST(LineSplitterTest, WritesOutWhatIsNoText) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Add("caf\xc3\xa9\x1b[31m\t\xff\n"), ElementsAre("caf\xc3\xa9\\x1b[31m\t\\xff"));
  EXPECT_THAT(splitter.Add(std::string(4096, '\x1b') + "\n"), ElementsAre(::testing::SizeIs(::testing::Le(4099u))));
}

}  // namespace
}  // namespace adjoin
