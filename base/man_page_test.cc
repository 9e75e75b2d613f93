#include "base/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ManPageTest, OptionsWithTypesRangesDefaultsAndVariables) {
  CLI::App app("Does it", "program");
  std::string text = "here";
  double seconds = 30;
  bool flag = false;
  app.add_option("-a,--address", text, "Where it is")->capture_default_str()->type_name("HOST:PORT")->envname("WHERE");
  app.add_option("--seconds", seconds, "How long?")->capture_default_str()->check(CLI::Range(0.5, 60.0));
  app.add_option("--needed", text, "It is")->required();
  app.add_option("-w,--watch", seconds, "Again")->expected(0, 1)->type_name("SECONDS");
  app.add_flag("--hidden", flag, "Not shown")->group("");
  app.add_flag("--flag", flag, "Shown");
  const std::string page = ManPage(app, {.section = 8, .see_also = {"other(1)", "third(8)"}});
  EXPECT_THAT(page, HasSubstr(".TH \"PROGRAM\" \"8\" \"\" \"Adjoin "));
  EXPECT_THAT(page, HasSubstr(".SH NAME\nprogram \\- Does it\n"));
  EXPECT_THAT(page,
              HasSubstr(".TP\n\\fB\\-a\\fR, \\fB\\-\\-address\\fR \\fIHOST:PORT\\fR\nWhere it is.\nDefault: here.\n"
                        "Environment: \\fBWHERE\\fR.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-seconds\\fR \\fIFLOAT\\fR\nHow long?\nBetween 0.5 and 60.\nDefault: 30.\n"));
  EXPECT_THAT(page, HasSubstr("It is.\nRequired.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-watch\\fR [\\fISECONDS\\fR]\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-flag\\fR\nShown.\n"));
  EXPECT_THAT(page, Not(HasSubstr("hidden")));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\n\\fBother\\fR(1),\n\\fBthird\\fR(8)\n"));
}

TEST(ManPageTest, ACommandHasAHeadingWithItsArguments) {
  CLI::App app("Does it", "program");
  std::string text;
  CLI::App* token = app.add_subcommand("token", "Tokens");
  CLI::App* create = token->add_subcommand("create", "Make one");
  create->add_option("USER", text, "Whose")->required();
  create->add_option("SHELL", text, "Which")->type_name("bash|zsh");
  const std::string page = ManPage(app, {});
  EXPECT_THAT(page, HasSubstr(".SS \\fBtoken create\\fR \\fIUSER\\fR [\\fISHELL\\fR]\nMake one.\n.TP\n\\fIUSER\\fR\n"
                              "Whose.\n.TP\n\\fISHELL\\fR (bash|zsh)\nWhich.\n"));
  EXPECT_THAT(page, Not(HasSubstr(".SS \\fBtoken\\fR")));
}

TEST(ManPageTest, NothingInATextIsARequest) {
  CLI::App app("Does it", "other program");
  std::string text;
  app.add_option("--dot", text, ".so /etc/passwd");
  app.add_option("--quote", text, "'it' is `a-b` or a\\b, ~ and ^");
  app.footer("Of two lines.\n.Of dots.");
  const std::string page = ManPage(app, {});
  EXPECT_THAT(page, HasSubstr("\n\\&.so /etc/passwd.\n"));
  EXPECT_THAT(page, HasSubstr("\n\\(aqit\\(aq is \\fBa\\-b\\fR or a\\eb, \\(ti and \\(ha.\n"));
  EXPECT_THAT(page, HasSubstr(".PP\nOf two lines.\n.PP\n\\&.Of dots.\n"));
  EXPECT_THAT(page, HasSubstr(".TH \"OTHER\\-PROGRAM\""));
}

}  // namespace
}  // namespace adjoin
