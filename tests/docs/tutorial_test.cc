// docs/tutorial.md: its commands, run as they stand there by one bash in an empty folder, succeed and print what the
// page shows; and what they make is what the page says.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "nlohmann/json.hpp"
#include "tests/harness/child_process.h"
#include "tests/harness/leftovers.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPage[] = "docs/tutorial.md";
constexpr char kAddress[] = "127.0.0.1:7411";  // of the page's coordinator
constexpr absl::Duration kMost = absl::Seconds(280);

struct Step {
  int line = 0;
  std::string commands;
  std::string shown;  // what the page says they print; "..." stands for further lines
};

// Each ```sh block with the ```text block that follows it.
std::vector<Step> StepsOf(absl::string_view page) {
  std::vector<Step> steps;
  std::string kind;  // of the block that the line is in
  int number = 0;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    ++number;
    if (absl::ConsumePrefix(&line, "```")) {
      kind = kind.empty() ? std::string(line.empty() ? "unnamed" : line) : "";
      EXPECT_TRUE(kind.empty() || kind == "sh" || kind == "text") << kPage << ":" << number << ": a block of " << kind;
      if (kind == "sh") steps.push_back({number, "", ""});
      EXPECT_FALSE(kind == "text" && steps.empty()) << kPage << ":" << number;
    } else if (kind == "sh") {
      absl::StrAppend(&steps.back().commands, line, "\n");
    } else if (kind == "text" && !steps.empty()) {
      absl::StrAppend(&steps.back().shown, line, "\n");
    }
  }
  EXPECT_EQ(kind, "") << kPage << ": a block does not end";
  return steps;
}

// A line without what differs from run to run: "dice 0.9, 12 steps" and "dice 0.85,  9 steps" are both
// "dice #, # steps".
std::string WithoutNumbers(absl::string_view line) {
  std::string result;
  for (const char c : absl::StripAsciiWhitespace(line)) {
    const bool number = absl::ascii_isdigit(c) || (c == '.' && absl::EndsWith(result, "#"));
    if (number && absl::EndsWith(result, "#")) continue;
    if (c == ' ' && absl::EndsWith(result, " ")) continue;
    result.push_back(number ? '#' : c);
  }
  return absl::StrReplaceAll(result, {{"# min # s", "# s"}});
}

// A port of loopback that is free now.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class TutorialTest : public ::testing::Test {
 protected:
  std::string PrintedBy(size_t step) const { return ReadFile(absl::StrCat(outputs_, "/", step)); }

  // Runs all steps in one bash, which ends at the first command that fails.
  int Run(const std::vector<Step>& steps) {
    std::string path;
    for (const char* program : {"cli/adjoin", "coordinator/adjoin-coordinator", "worker/adjoin-worker"}) {
      absl::StrAppend(&path, fs::absolute(Runfile(program)).parent_path().string(), ":");
    }
    std::string script = absl::StrCat("set -euo pipefail\nexport PATH=", path, "/usr/bin:/bin TMPDIR=", base_,
                                      "/tmp HOME=", base_, "/tmp\ncd ", folder_, "\n");
    for (size_t i = 0; i < steps.size(); ++i) {
      absl::StrAppend(&script, "exec > ", outputs_, "/", i, " 2>&1\n", steps[i].commands);
    }
    // Another coordinator may listen at the page's address.
    script = absl::StrReplaceAll(script, {{kAddress, absl::StrCat("127.0.0.1:", FreePort())}});
    std::ofstream(base_ + "/script") << script;
    auto bash = ChildProgram::Start({"/bin/bash", base_ + "/script"}, {}, base_ + "/bash");
    EXPECT_TRUE(bash.ok()) << bash.status();
    if (!bash.ok()) return -1;
    const auto code = (*bash)->Wait(Deadline::After(kMost));
    EXPECT_TRUE(code.ok()) << code.status();
    return code.value_or(-1);
  }

  void SetUp() override {
    base_ = absl::StrCat(getenv("TEST_TMPDIR"), "/tutorial");
    folder_ = base_ + "/empty";
    outputs_ = base_ + "/outputs";
    for (const std::string& made : {folder_, outputs_, base_ + "/tmp"}) fs::create_directories(made);
  }

  std::string base_, folder_, outputs_;
};

// The Dice that a job has written into its metrics.jsonl at its end.
double DiceOf(const std::string& folder) {
  double dice = -1;
  const std::string metrics = ReadFile(folder + "/metrics.jsonl");
  for (absl::string_view line : absl::StrSplit(metrics, '\n')) {
    const nlohmann::json fields = nlohmann::json::parse(std::string(line), nullptr, false);
    if (fields.is_object() && fields.value("type", "") == "evaluation") dice = fields["dice"].get<double>();
  }
  return dice;
}

// What follows "dice " in what the page's Python has printed.
double DiceByNumPy(absl::string_view printed) {
  double dice = -1;
  for (absl::string_view line : absl::StrSplit(printed, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, "dice ") && absl::SimpleAtod(line, &value)) dice = value;
  }
  return dice;
}

TEST_F(TutorialTest, EveryCommandDoesWhatThePageSays) {
  const std::vector<Step> steps = StepsOf(ReadFile(Runfile(kPage)));
  ASSERT_GT(steps.size(), 8) << kPage;
  const int code = Run(steps);
  std::string all;
  for (size_t i = 0; i < steps.size(); ++i) absl::StrAppend(&all, "--- line ", steps[i].line, "\n", PrintedBy(i));
  for (const char* daemon : {"coordinator", "worker"}) {
    absl::StrAppend(&all, "--- ", daemon, "\n", ReadFile(absl::StrCat(folder_, "/", daemon, ".log")));
  }
  ASSERT_EQ(code, 0) << all;

  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::string> printed;
    const std::string output = PrintedBy(i);
    for (absl::string_view line : absl::StrSplit(output, '\n')) printed.push_back(WithoutNumbers(line));
    for (absl::string_view line : absl::StrSplit(steps[i].shown, '\n', absl::SkipWhitespace())) {
      if (line == "...") continue;
      EXPECT_NE(std::find(printed.begin(), printed.end(), WithoutNumbers(line)), printed.end())
          << kPage << ": the commands of line " << steps[i].line << " do not print '" << line << "', but\n"
          << output;
    }
  }

  // The ranking is that of the jobs' own files, and the best is good.
  std::map<double, std::string> jobs;
  for (const char* job : {"slow", "fast", "wide"}) jobs[DiceOf(absl::StrCat(folder_, "/results/", job))] = job;
  ASSERT_THAT(jobs, SizeIs(3));
  const auto& [dice, best] = *jobs.rbegin();
  EXPECT_GT(dice, 0.9);
  const std::string ranking_text = ReadFile(folder_ + "/ranking.txt");
  const std::vector<absl::string_view> ranking = absl::StrSplit(ranking_text, '\n', absl::SkipEmpty());
  ASSERT_THAT(ranking, SizeIs(3));
  EXPECT_TRUE(absl::EndsWith(ranking[0], absl::StrCat(" ", best))) << ranking[0];
  // What is in the NIfTI files, and the weights, are the best job's.
  EXPECT_NEAR(DiceByNumPy(all), dice, 1e-9);
  EXPECT_EQ(ReadFile(folder_ + "/unet.safetensors"),
            ReadFile(absl::StrCat(folder_, "/results/", best, "/model.safetensors")));

  EXPECT_THAT(ProcessesLeft(base_, Deadline::After(absl::Seconds(30))), IsEmpty());
  EXPECT_TRUE(fs::is_empty(base_ + "/tmp"));
}

}  // namespace
}  // namespace adjoin
