#include "base/shell_completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kBreaks[] = " \t\n\"'><=;|&(:";  // bash's own

TEST(ShellCompletionTest, AScriptForEachShell) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const absl::StatusOr<std::string> script = CompletionScript("adjoin-worker", shell);
    ASSERT_TRUE(script.ok());
    EXPECT_THAT(*script, HasSubstr("command adjoin-worker --complete"));
    EXPECT_THAT(*script, HasSubstr(shell == "zsh" ? "_adjoin-worker()" : "_adjoin_worker"));
    EXPECT_THAT(*script, Not(HasSubstr("PROGRAM")));
    EXPECT_THAT(*script, Not(HasSubstr("FUNCTION")));
    EXPECT_THAT(*script, Not(HasSubstr("eval")));
  }
  EXPECT_EQ(CompletionScript("adjoin", "tcsh").status().message(), "'tcsh' is not bash, zsh or fish");
}

TEST(ShellCompletionTest, BashLinesAreDividedAsBashDoes) {
  EXPECT_THAT(ReadBashLine("adjoin get ", kBreaks).words, ElementsAre("adjoin", "get", ""));
  EXPECT_THAT(ReadBashLine("adjoin  get jo", kBreaks).words, ElementsAre("adjoin", "get", "jo"));
  EXPECT_THAT(ReadBashLine("adjoin get a\\ b", kBreaks).words, ElementsAre("adjoin", "get", "a b"));
  EXPECT_THAT(ReadBashLine("adjoin get 'a $b' \"c \\\"d \\e", kBreaks).words,
              ElementsAre("adjoin", "get", "a $b", "c \"d \\e"));
  EXPECT_THAT(ReadBashLine("adjoin --format=js", kBreaks).words, ElementsAre("adjoin", "--format=js"));
  EXPECT_THAT(ReadBashLine("adjoin get ''", kBreaks).words, ElementsAre("adjoin", "get", ""));
  EXPECT_THAT(ReadBashLine("adjoin get a>b", kBreaks).words, ElementsAre("adjoin", "get", "a", "b"));
  EXPECT_THAT(ReadBashLine("adjoin get $(id)", kBreaks).words, ElementsAre("adjoin", "get", "$", "id", ""));
}

TEST(ShellCompletionTest, WhatReadlineKeepsOfTheLastWord) {
  EXPECT_EQ(ReadBashLine("adjoin --format=js", kBreaks).kept, 9u);
  EXPECT_EQ(ReadBashLine("adjoin --format=js", " ").kept, 0u);
  EXPECT_EQ(ReadBashLine("adjoin get a:b\\:c", kBreaks).kept, 2u);
  EXPECT_EQ(ReadBashLine("adjoin a=1 b", kBreaks).kept, 0u);
  const BashLine open = ReadBashLine("adjoin get ab\"c d", kBreaks);
  EXPECT_EQ(open.quote, '"');
  EXPECT_EQ(open.kept, 2u);
}

TEST(ShellCompletionTest, QuotedForBash) {
  EXPECT_EQ(QuoteForBash("job-1_a.b", 0), "job-1_a.b");
  EXPECT_EQ(QuoteForBash("$(id) it's", 0), "\\$\\(id\\)\\ it\\'s");
  EXPECT_EQ(QuoteForBash("~x;!{a,b}*", 0), "\\~x\\;\\!\\{a,b\\}\\*");
  EXPECT_EQ(QuoteForBash("$(id) \"`x`\" \\ it's", '"'), "\\$(id) \\\"\\`x\\`\\\" \\\\ it's");
  EXPECT_EQ(QuoteForBash("a!b", '"'), "a\"'!'\"b");
  EXPECT_EQ(QuoteForBash("$(id) it's", '\''), "$(id) it'\\''s");
  EXPECT_EQ(QuoteForBash("caf\xc3\xa9", 0), "caf\xc3\xa9");
}

class AnswerTest : public ::testing::Test {
 protected:
  AnswerTest() : app_("A test", "program") {
    CLI::App* get = app_.add_subcommand("get", "Fetch it");
    get->add_option("JOB", text_);
    get->add_option("--format", text_)->type_name("table|json");
    get->add_option("--into", text_)->type_name("DIR");
    sources_.values = [](const std::string&, const std::vector<std::string>&) {
      return std::vector<Suggestion>{{"a b", "running"}, {"a:c$(id)", ""}};
    };
  }
  std::string Bash(const std::string& line) { return CompletionAnswer(app_, {"bash", line, kBreaks}, sources_); }

  CLI::App app_;
  CompletionSources sources_;
  std::string text_;
};

TEST_F(AnswerTest, WordsWithDescriptions) {
  EXPECT_EQ(CompletionAnswer(app_, {"words", "g"}, sources_), "get\tFetch it\n:none\n");
  EXPECT_EQ(CompletionAnswer(app_, {"words", "get", "a"}, sources_), "a b\trunning\na:c$(id)\t\n:none\n");
  EXPECT_EQ(CompletionAnswer(app_, {"words", "get", "--into", ""}, sources_), ":folders\n");
}

TEST_F(AnswerTest, BashGetsWhatItInserts) {
  EXPECT_EQ(Bash("program get a"), "a\\ b\na:c\\$\\(id\\)\n:none\n");
  EXPECT_EQ(Bash("program get a:"), "c\\$\\(id\\)\n:none\n");
  EXPECT_EQ(Bash("program get \"a"), "a b\na:c\\$(id)\n:none\n");
  EXPECT_EQ(Bash("program get 'a:c"), "a:c$(id)\n:none\n");
  EXPECT_EQ(Bash("program get --format=j"), "json\n:none\n");
  EXPECT_EQ(Bash("program g"), "get\n:none\n");
}

TEST_F(AnswerTest, OtherQuestionsAreNotAnswered) {
  EXPECT_EQ(CompletionAnswer(app_, {}, sources_), "");
  EXPECT_EQ(CompletionAnswer(app_, {"words"}, sources_), "");
  EXPECT_EQ(CompletionAnswer(app_, {"bash", "program get a"}, sources_), "");
  EXPECT_EQ(CompletionAnswer(app_, {"bash", "", kBreaks}, sources_), "");
  EXPECT_EQ(CompletionAnswer(app_, {"tcsh", "x", "y"}, sources_), "");
}

}  // namespace
}  // namespace adjoin
