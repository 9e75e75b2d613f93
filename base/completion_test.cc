#include "base/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A program with commands, as `adjoin`.
class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() : app_("A test", "program"), inner_("Another program", "inner") {
    app_.fallthrough();
    app_.add_option("--coordinator", text_)->type_name("HOST:PORT");
    app_.add_option("--tls-ca", text_)->type_name("FILE");
    app_.add_flag("--secret", flag_)->group("");
    CLI::App* submit = app_.add_subcommand("submit", "Submit it");
    submit->add_option("SPEC", text_)->required();
    submit->add_flag("-f,--follow", flag_, "Go on");
    submit->add_option("-o,--format", text_)->type_name("table|json|yaml");
    submit->add_option("--set", texts_)->type_name("PATH=VALUE");
    submit->add_option("--into", text_)->type_name("DIR");
    submit->add_option("--state", texts_)->delimiter(',')->type_name("running|failed|pending");
    CLI::App* get = app_.add_subcommand("get", "Fetch it");
    get->add_option("JOB", text_);
    get->add_option("FILE", text_);
    get->add_option("--job", text_)->type_name("JOB");
    CLI::App* token = app_.add_subcommand("token", "Tokens");
    token->add_subcommand("create", "Make one");
    token->add_subcommand("list", "Show them");
    app_.add_subcommand("hidden", "")->group("");
    app_.add_subcommand("verify", "Hands on")->allow_extras()->fallthrough(false);
    inner_.add_option("SPEC", text_);
    inner_.add_option("--tolerance", text_);
    sources_.values = [this](const std::string& type, const std::vector<std::string>& settings) {
      type_ = type;
      settings_ = settings;
      return values_;
    };
    sources_.handed_on = [this](const CLI::App& command) { return command.get_name() == "verify" ? &inner_ : nullptr; };
  }

  std::vector<std::string> Texts(const std::vector<std::string>& words) {
    const Completion found = Complete(app_, words, sources_);
    paths_ = found.paths;
    std::vector<std::string> texts;
    for (const Suggestion& suggestion : found.suggestions) texts.push_back(suggestion.text);
    return texts;
  }

  CLI::App app_, inner_;
  CompletionSources sources_;
  std::vector<Suggestion> values_ = {{"job-1", "lenet"}, {"job-12", ""}, {"lenet", ""}};
  std::string type_, text_;
  std::vector<std::string> settings_, texts_;
  Completion::Paths paths_ = Completion::Paths::kNone;
  bool flag_ = false;
};

TEST_F(CompletionTest, CommandsThatAreNotHidden) {
  EXPECT_THAT(Texts({""}), ElementsAre("submit", "get", "token", "verify"));
  EXPECT_THAT(Texts({"--coordinator", "host:1", "s"}), ElementsAre("submit"));
  EXPECT_THAT(Texts({"token", ""}), ElementsAre("create", "list"));
  EXPECT_THAT(Texts({"token", "create", ""}), IsEmpty());
  EXPECT_THAT(Texts({}), ElementsAre("submit", "get", "token", "verify"));
}

TEST_F(CompletionTest, OptionsOfTheCommandAndOfTheProgram) {
  EXPECT_THAT(Texts({"submit", "--f"}), ElementsAre("--follow", "--format"));
  EXPECT_THAT(Texts({"submit", "--co"}), ElementsAre("--coordinator"));
  EXPECT_THAT(Texts({"--co"}), ElementsAre("--coordinator"));
  EXPECT_THAT(Texts({"submit", "--sec"}), IsEmpty());
  EXPECT_THAT(Texts({"submit", "--follow", "--f"}), ElementsAre("--format"));
  EXPECT_THAT(Texts({"submit", "--set", "a=1", "--se"}), ElementsAre("--set"));
  EXPECT_THAT(Texts({"submit", "--", "--f"}), IsEmpty());
}

TEST_F(CompletionTest, ChoicesOfAnOption) {
  EXPECT_THAT(Texts({"submit", "--format", ""}), ElementsAre("table", "json", "yaml"));
  EXPECT_THAT(Texts({"submit", "-o", "j"}), ElementsAre("json"));
  EXPECT_THAT(Texts({"submit", "-fo", "j"}), ElementsAre("json"));
  EXPECT_THAT(Texts({"submit", "--format=y"}), ElementsAre("--format=yaml"));
  EXPECT_THAT(Texts({"submit", "--state", "running,"}), ElementsAre("running,failed", "running,pending"));
  EXPECT_THAT(Texts({"submit", "--state=running,f"}), ElementsAre("--state=running,failed"));
  EXPECT_THAT(Texts({"submit", "--unknown=y"}), IsEmpty());
}

TEST_F(CompletionTest, Paths) {
  EXPECT_THAT(Texts({"submit", "jo"}), IsEmpty());
  EXPECT_EQ(paths_, Completion::Paths::kFiles);
  Texts({"submit", "job.textproto", ""});
  EXPECT_EQ(paths_, Completion::Paths::kNone);
  Texts({"submit", "-f", "--set", "a=1", "--format=json", ""});
  EXPECT_EQ(paths_, Completion::Paths::kFiles);
  Texts({"submit", "--into", ""});
  EXPECT_EQ(paths_, Completion::Paths::kFolders);
  Texts({"submit", "--tls-ca=/etc/"});
  EXPECT_EQ(paths_, Completion::Paths::kFiles);
}

TEST_F(CompletionTest, ValuesOfTheProgramWithTheSettingsSoFar) {
  EXPECT_THAT(Texts({"--coordinator", "a:1", "get", "--tls-ca=ca.pem", "job"}), ElementsAre("job-1", "job-12"));
  EXPECT_EQ(type_, "JOB");
  EXPECT_THAT(settings_, ElementsAre("--coordinator=a:1", "--tls-ca=ca.pem"));
  EXPECT_THAT(Texts({"get", "--job=le"}), ElementsAre("--job=lenet"));
  EXPECT_THAT(Texts({"get", "job-1", ""}), IsEmpty());
  EXPECT_EQ(paths_, Completion::Paths::kFiles);
  // A command's name is one only where a command may stand.
  EXPECT_THAT(Texts({"get", "get", ""}), IsEmpty());
  EXPECT_EQ(paths_, Completion::Paths::kFiles);
}

TEST_F(CompletionTest, HostileValuesAreLeftOut) {
  values_ = {{"a\x1b[31m", ""}, {"b\nc", ""}, {"d\te", ""},     {"--help", ""},          {"\xff", ""},
             {"$(id)", ""},     {"x y", ""},  {"x y", "again"}, {"fine", "\x1b[31m red"}};
  EXPECT_THAT(Texts({"get", ""}), ElementsAre("$(id)", "x y", "fine"));
  EXPECT_EQ(Complete(app_, {"get", "f"}, sources_).suggestions[0].description, "\\x1b[31m red");
}

TEST_F(CompletionTest, ACommandThatHandsOnHasTheOtherProgramsOptions) {
  EXPECT_THAT(Texts({"verify", "--to"}), ElementsAre("--tolerance"));
  EXPECT_THAT(Texts({"verify", "--co"}), IsEmpty());
  EXPECT_THAT(Texts({"verify", "--tolerance", "1", ""}), IsEmpty());
  EXPECT_EQ(paths_, Completion::Paths::kFiles);
}

}  // namespace
}  // namespace adjoin
