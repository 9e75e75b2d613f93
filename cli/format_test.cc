#include "cli/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "proto/coordinator.pb.h"
#include "yaml-cpp/yaml.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ListJobsResponse Example() {
  ListJobsResponse list;
  list.mutable_header()->set_protocol_version(1);
  JobSummary& job = *list.add_job();
  job.set_job_id("job-1");
  job.set_name("true");
  job.set_state(FAILED);
  job.set_reason("rank 2: \"no\" {space}\nleft: # 3");
  job.set_submitted_unix_ms(1700000000000);
  job.mutable_progress()->set_loss(0.25);
  return list;
}

TEST(FormatTest, JsonHasEveryFieldByTheNameOfTheProtoFile) {
  auto json = nlohmann::json::parse(Formatted(Example(), Format::kJson));
  EXPECT_FALSE(json.contains("header"));
  EXPECT_EQ(json["job"][0]["job_id"], "job-1");
  EXPECT_EQ(json["job"][0]["state"], "FAILED");
  EXPECT_EQ(json["job"][0]["submitted_unix_ms"], "1700000000000");
  EXPECT_EQ(json["job"][0]["queue_position"], 0) << "a field is there also when it is 0";
  EXPECT_EQ(json["job"][0]["progress"]["loss"], 0.25);
  EXPECT_TRUE(json["worker"].is_array());
}

TEST(FormatTest, YamlHoldsTheSameAsJson) {
  const std::string text = Formatted(Example(), Format::kYaml);
  YAML::Node yaml = YAML::Load(text);
  EXPECT_EQ(yaml["job"][0]["job_id"].as<std::string>(), "job-1");
  EXPECT_EQ(yaml["job"][0]["reason"].as<std::string>(), Example().job(0).reason());
  EXPECT_EQ(yaml["job"][0]["name"].Tag(), "!") << "quoted, or it would be a truth value: " << text;
  EXPECT_EQ(yaml["job"][0]["progress"]["loss"].as<double>(), 0.25);
  EXPECT_EQ(yaml["job"][0]["held"].as<bool>(), false);
  EXPECT_TRUE(yaml["worker"].IsSequence());
  EXPECT_THAT(text, Not(HasSubstr("header")));
}

TEST(FormatTest, ItemsAreLinesOrDocuments) {
  LogLine line;
  line.set_text("two\nlines");
  line.set_rank(3);
  const std::string json = FormattedItem(line, Format::kJson);
  EXPECT_EQ(json.find('\n'), json.size() - 1) << json;
  EXPECT_EQ(nlohmann::json::parse(json)["rank"], 3);
  const std::string two = FormattedItem(line, Format::kYaml) + FormattedItem(line, Format::kYaml);
  EXPECT_EQ(YAML::LoadAll(two).size(), 2) << two;
}

TEST(FormatTest, ADocumentThatIsTextHasTheSameContentAsYaml) {
  const std::string json = "{\"a\": null, \"b\": [1, 2.5, \"null\"], \"c\": {}}";
  EXPECT_EQ(FormattedText(json, Format::kJson), json);
  const YAML::Node yaml = YAML::Load(FormattedText(json, Format::kYaml));
  EXPECT_TRUE(yaml["a"].IsNull());
  EXPECT_EQ(yaml["b"][1].as<double>(), 2.5);
  EXPECT_EQ(yaml["b"][2].as<std::string>(), "null");
}

}  // namespace
}  // namespace adjoin
