#include "base/flags.h"

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

}  // namespace
}  // namespace adjoin
