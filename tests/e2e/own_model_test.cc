// The lines of examples/own-model/README.md, as they stand there: a PyTorch module's archive becomes a job, equals
// PyTorch, trains over two ranks, and the module computes with the weights what the job's own evaluation measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The README's commands, without the export, which Debian 12's PyTorch is too old for: its files are in the folder.
std::vector<std::string> Commands(const std::string& readme) {
  std::vector<std::string> commands;
  bool goes_on = false;
  for (absl::string_view line : absl::StrSplit(readme, '\n')) {
    if (!absl::ConsumePrefix(&line, "    ")) continue;
    if (goes_on) {
      absl::StrAppend(&commands.back(), "\n", line);
    } else {
      commands.emplace_back(line);
    }
    goes_on = absl::EndsWith(line, "\\");
    if (!goes_on && absl::StrContains(commands.back(), "export.py")) commands.pop_back();
  }
  return commands;
}

nlohmann::json LastLineOf(const std::string& path, const std::string& type) {
  nlohmann::json last;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_object() && entry["type"] == type) last = entry;
  }
  return last;
}

TEST(OwnModelTest, TheReadmesLinesLeadToTrainedWeights) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/own");
  fs::create_directories(folder + "/examples");
  fs::create_directories(folder + "/python");
  fs::copy(fs::path(Runfile("examples/own-model/README.md")).parent_path(), folder + "/examples/own-model",
           fs::copy_options::recursive);
  fs::copy(fs::path(Runfile("python/adjoin/__init__.py")).parent_path(), folder + "/python/adjoin",
           fs::copy_options::recursive);
  const std::vector<std::string> commands = Commands(ReadFile(absl::StrCat(folder, "/examples/own-model/README.md")));
  ASSERT_EQ(commands.size(), 6u);
  ASSERT_EQ(commands[0], "cd examples/own-model");
  std::vector<std::string> printed;
  for (size_t i = 1; i < commands.size(); ++i) {
    const std::string programs = fs::absolute(fs::path(Runfile("cli/adjoin"))).parent_path();
    const std::string script = absl::StrCat("set -eu; export PATH='", programs, "':/usr/bin:/bin; cd '", folder, "'; ",
                                            commands[0], "; ", commands[i]);
    auto shell = ChildProgram::Start({"/bin/bash", "-c", script}, {"OMP_NUM_THREADS=1"}, absl::StrCat(folder, "/", i));
    ASSERT_TRUE(shell.ok()) << shell.status();
    const auto code = (*shell)->Wait(Deadline::After(absl::Minutes(4)));
    ASSERT_TRUE(code.ok()) << commands[i] << ": " << code.status() << (*shell)->Output();
    ASSERT_EQ(*code, 0) << commands[i] << "\n" << (*shell)->Output() << (*shell)->Errors();
    printed.push_back((*shell)->Output());
  }
  EXPECT_THAT(printed[2], AllOf(HasSubstr("against PyTorch: output"), HasSubstr("4 ranks, layouts chosen"),
                                Not(HasSubstr("DEVIATES")), Not(HasSubstr("NOT VERIFIED"))));
  EXPECT_THAT(printed[3], HasSubstr("succeeded"));

  double loss = 0, dice = 0;
  ASSERT_EQ(sscanf(printed[4].c_str(), "loss %lf dice %lf", &loss, &dice), 2) << printed[4];
  EXPECT_GT(dice, 0.8);
  const nlohmann::json measured = LastLineOf(folder + "/examples/own-model/out/own-model/metrics.jsonl", "evaluation");
  ASSERT_TRUE(measured.is_object());
  EXPECT_NEAR(measured["loss"].get<double>(), loss, 1e-5 * std::fabs(loss) + 1e-6) << measured;
}

}  // namespace
}  // namespace adjoin
