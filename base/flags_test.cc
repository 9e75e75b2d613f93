#include "base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

namespace adjoin {
namespace {

struct Parsed {
  std::optional<int> code;
  std::string listen = "default";
  int slots = 0;
};

Parsed Parse(std::vector<std::string> arguments) {
  Parsed parsed;
  CLI::App app("A test", "program");
  app.add_option("--listen-on", parsed.listen);
  app.add_option("--slots", parsed.slots);
  AddConfigSources(app, "ADJOIN_TEST_");
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  parsed.code = ParseFlags(app, static_cast<int>(argv.size()), argv.data());
  return parsed;
}

std::string ConfigFile(const std::string& text) {
  std::string path = std::string(getenv("TEST_TMPDIR")) + "/config";
  std::ofstream(path) << text;
  return path;
}

TEST(FlagsTest, CommandLineBeforeEnvironmentBeforeFile) {
  std::string file = ConfigFile("# a comment\nlisten-on = \"file\"\nslots = 3\n");
  EXPECT_EQ(Parse({}).listen, "default");
  EXPECT_EQ(Parse({"--config", file}).listen, "file");
  EXPECT_EQ(Parse({"--config", file}).slots, 3);
  setenv("ADJOIN_TEST_LISTEN_ON", "environment", 1);
  setenv("ADJOIN_TEST_CONFIG", file.c_str(), 1);
  EXPECT_EQ(Parse({}).listen, "environment");
  EXPECT_EQ(Parse({}).slots, 3);
  EXPECT_EQ(Parse({"--listen-on", "line"}).listen, "line");
  unsetenv("ADJOIN_TEST_LISTEN_ON");
  unsetenv("ADJOIN_TEST_CONFIG");
}

TEST(FlagsTest, WrongUsage) {
  EXPECT_EQ(Parse({"--unknown"}).code, 2);
  EXPECT_EQ(Parse({"--slots", "many"}).code, 2);
  EXPECT_EQ(Parse({"--config", "/nowhere"}).code, 2);
  EXPECT_EQ(Parse({"--config", ConfigFile("unknown = 1\n")}).code, 2);
  EXPECT_EQ(Parse({"--help"}).code, 0);
}

// A program with commands, as `adjoin`. What it writes to stderr for this command line.
std::string ErrorOf(std::vector<std::string> arguments) {
  CLI::App app("A test", "program");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--coordinator");
  AddConfigSources(app, "ADJOIN_TEST_");
  app.add_subcommand("submit", "")->add_flag("--follow");
  app.add_subcommand("ps", "");
  app.add_subcommand("verify", "")->allow_extras();
  CLI::App* token = app.add_subcommand("token", "");
  token->require_subcommand(1);
  token->add_subcommand("create", "");
  token->add_subcommand("list", "");
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ParseFlags(app, static_cast<int>(argv.size()), argv.data()), 2);
  return ::testing::internal::GetCapturedStderr();
}

TEST(FlagsTest, WhatIsUnknownIsNamedWithTheNearest) {
  EXPECT_EQ(ErrorOf({"subimt", "job.textproto"}),
            "program: error: unknown command 'subimt'; did you mean 'submit'? (see program --help)\n");
  EXPECT_EQ(ErrorOf({"frobnicate"}), "program: error: unknown command 'frobnicate' (see program --help)\n");
  EXPECT_EQ(ErrorOf({}), "program: error: a command is missing: submit, ps, verify, token (see program --help)\n");
  EXPECT_EQ(ErrorOf({"token", "crate"}),
            "program: error: unknown command 'crate'; did you mean 'create'? (see program token --help)\n");
  EXPECT_EQ(ErrorOf({"submit", "--folow"}),
            "program: error: unknown option '--folow'; did you mean '--follow'? (see program submit --help)\n");
  EXPECT_EQ(ErrorOf({"ps", "--cordinator=host:1"}),
            "program: error: unknown option '--cordinator'; did you mean '--coordinator'? (see program ps --help)\n");
  EXPECT_EQ(ErrorOf({"delete"}), "program: error: unknown command 'delete' (see program --help)\n");
  EXPECT_EQ(ErrorOf({"--config", "/nowhere", "verify", "--ranks", "2"}),
            "program: error: /nowhere was not readable (missing?) (see program verify --help)\n");
  EXPECT_EQ(ErrorOf({"\x1b[31m"}), "program: error: unknown command '\\x1b[31m' (see program --help)\n");
}

TEST(FlagsTest, TheVersionIsShown) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--version"}).code, 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::MatchesRegex("program [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace adjoin
