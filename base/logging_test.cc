#include "base/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"

namespace adjoin {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(LoggingTest, LinesForPeopleHaveTimeProgramAndLevel) {
  testing::internal::CaptureStderr();
  InitLogging("adjoin-worker");
  LogWarning("braces {} and %v stay", {.job = "job-7", .attempt = 3, .rank = 2});
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, ContainsRegex("^[0-9]+-[0-9]+-[0-9]+T[0-9:.]+[+-][0-9:]+ adjoin-worker warning: "));
  EXPECT_THAT(line, HasSubstr("braces {} and %v stay\n"));
}

TEST(LoggingTest, AQuietProgramTellsOfWhatIsWrongOnly) {
  testing::internal::CaptureStderr();
  InitLogging("adjoin", LogFormat::kText, /*quiet=*/true);
  LogInfo("the file was read again");
  LogError("the file cannot be read");
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, ContainsRegex("^[^ ]+ adjoin error: the file cannot be read\n$"));
}

TEST(LoggingTest, LinesForProgramsAreObjectsWithJobAttemptAndRank) {
  testing::internal::CaptureStderr();
  InitLogging("adjoin-worker", LogFormat::kJson);
  LogInfo("connected");
  LogError("rank 2 said \"no\"\nand {} \xff", {.job = "job-7", .attempt = 3, .rank = 0});
  std::istringstream lines(testing::internal::GetCapturedStderr());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  auto json = nlohmann::json::parse(line);
  EXPECT_THAT(json["ts"].get<std::string>(), ContainsRegex("^[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+[.][0-9]+Z$"));
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["program"], "adjoin-worker");
  EXPECT_EQ(json["message"], "connected");
  EXPECT_FALSE(json.contains("job") || json.contains("attempt") || json.contains("rank"));
  ASSERT_TRUE(std::getline(lines, line));
  json = nlohmann::json::parse(line);
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["message"], "rank 2 said \"no\"\\nand {} \\xff");
  EXPECT_EQ(json["job"], "job-7");
  EXPECT_EQ(json["attempt"], 3);
  EXPECT_EQ(json["rank"], 0);
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

TEST(LoggingTest, NoMessageMakesASecondLine) {
  testing::internal::CaptureStderr();
  InitLogging("adjoin-worker");
  LogInfo("job 'a\n2026-11-20T14:00:00.123+0000 adjoin-worker info: all is well\x1b[2J'");
  LogInfo(std::string(size_t{1} << 20, 'x'));
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_THAT(lines, HasSubstr("job 'a\\n2026-11-20T14:00:00.123+0000 adjoin-worker info: all is well\\x1b[2J'\n"));
  EXPECT_THAT(lines, HasSubstr("more bytes)\n"));
  EXPECT_LT(lines.size(), 20000u);
}

TEST(LoggingTest, FormatsHaveNames) {
  EXPECT_EQ(ReadLogFormat("text"), LogFormat::kText);
  EXPECT_EQ(ReadLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(ReadLogFormat("xml"), std::nullopt);
}

}  // namespace
}  // namespace adjoin
