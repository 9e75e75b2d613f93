#include "cli/color.h"

#include <gtest/gtest.h>

#include "base/text_table.h"

namespace adjoin {
namespace {

TEST(ColorTest, IsUsedOnATerminalThatShowsItAndWhereNothingForbidsIt) {
  EXPECT_TRUE(UsesColor(ColorChoice::kAuto, true, nullptr, "xterm-256color"));
  EXPECT_TRUE(UsesColor(ColorChoice::kAuto, true, "", "xterm")) << "an empty NO_COLOR forbids nothing";
  EXPECT_FALSE(UsesColor(ColorChoice::kAuto, true, "1", "xterm"));
  EXPECT_FALSE(UsesColor(ColorChoice::kAuto, true, nullptr, "dumb"));
  EXPECT_FALSE(UsesColor(ColorChoice::kAuto, true, nullptr, nullptr));
  EXPECT_FALSE(UsesColor(ColorChoice::kAuto, false, nullptr, "xterm"));
  EXPECT_TRUE(UsesColor(ColorChoice::kAlways, false, "1", "dumb"));
  EXPECT_FALSE(UsesColor(ColorChoice::kNever, true, nullptr, "xterm"));
}

TEST(ColorTest, OnlyTheColumnOfStatesIsPainted) {
  const std::string table = TextTable({{"JOB", "NAME", "STATE", "REASON"},
                                       {"job-1", "running", "failed", "running  STATE  failed"},
                                       {"job-2", "n\xc3\xa9", "pending (2)", ""},
                                       {"job-3", "x", "strange", ""}}) +
                            "\n" + TextTable({{"WORKER", "STATE"}, {"w", "set aside"}});
  EXPECT_EQ(PaintStates(table),
            "JOB    NAME     STATE        REASON\n"
            "job-1  running  \x1b[31mfailed\x1b[0m       running  STATE  failed\n"
            "job-2  n\xc3\xa9      \x1b[33mpending\x1b[0m (2)\n"
            "job-3  x        strange\n"
            "\n"
            "WORKER  STATE\n"
            "w       \x1b[33mset aside\x1b[0m\n");
  EXPECT_EQ(PaintStates("no jobs\n"), "no jobs\n");
  EXPECT_EQ(PaintStates("JOB    ESTATE\njob-1  failed\n"), "JOB    ESTATE\njob-1  failed\n");
}

TEST(ColorTest, TheStateAfterAName) {
  EXPECT_EQ(PaintStateAfter("state", "job    job-1\nstate  pending, held\nstate  failed\n"),
            "job    job-1\nstate  \x1b[33mpending\x1b[0m, held\nstate  failed\n");
  EXPECT_EQ(PaintStateAfter("job-1", "job-1 succeeded in 2 s"), "job-1 \x1b[32msucceeded\x1b[0m in 2 s");
  EXPECT_EQ(PaintStateAfter("job-1", "job-1 [###] 5%"), "job-1 [###] 5%");
  EXPECT_EQ(PaintStateAfter("job-1", "job-12 failed"), "job-12 failed");
}

}  // namespace
}  // namespace adjoin
