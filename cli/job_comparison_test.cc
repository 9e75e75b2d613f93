#include "cli/job_comparison.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using Json = nlohmann::json;

JobFacts Facts(const std::string& id, JobState state, int ranks) {
  DescribeJobResponse described;
  described.mutable_job()->set_job_id(id);
  described.mutable_job()->set_state(state);
  described.mutable_job()->set_started_unix_ms(1000);
  described.mutable_job()->set_ended_unix_ms(state == RUNNING ? 0 : 13000);
  *described.mutable_spec() = ParseSpec(kLeNet, "job")->spec;
  described.mutable_spec()->set_ranks(ranks);
  described.mutable_spec()->set_output_dir(id);
  JobFacts facts;
  facts.name = id;
  facts.Take(described);
  return facts;
}

std::string Step(int step, double loss, double seconds) {
  return absl::StrCat("{\"type\": \"step\", \"step\": ", step, ", \"epoch\": 1, \"loss\": ", loss,
                      ", \"samples\": 64, \"t_comp\": ", seconds, ", \"t_sync\": 0}");
}

TEST(JobComparisonTest, LossesAreBesideEachOtherAtEqualSteps) {
  JobFacts a = Facts("job-1", SUCCEEDED, 4), b = Facts("job-2", RUNNING, 2);
  for (int step = 1; step <= 100; ++step) a.AddLine(Step(step, step == 40 ? 0.5 : 100.0 / step, 0.1));
  for (int step = 10; step <= 60; step += 10) b.AddLine(Step(step, 2, 0.2));
  a.AddLine("{\"type\": \"validation\", \"step\": 50, \"loss\": 1, \"accuracy\": 0.75}");
  a.AddLine("{\"type\": \"validation\", \"step\": 100, \"loss\": 2, \"accuracy\": 0.5, \"note\": \"x\"}");
  b.AddLine("no JSON");
  b.AddLine("[]");
  const JobComparison comparison = Compare(a, b, {.steps = 3, .now_unix_ms = 7000});
  const Json json = Json::parse(ComparisonJson(comparison));
  ASSERT_EQ(json["metrics"].size(), 3) << json.dump(1);
  EXPECT_EQ(json["metrics"][0]["name"], "loss");
  EXPECT_EQ(json["metrics"][0]["final"]["a"], Json::parse("{\"step\": 100, \"value\": 1}"));
  EXPECT_EQ(json["metrics"][0]["best"]["a"], Json::parse("{\"step\": 40, \"value\": 0.5}"));
  EXPECT_EQ(json["metrics"][0]["best"]["b"]["step"], 10) << "the first of equal ones";
  EXPECT_EQ(json["metrics"][0]["equal_steps"],
            Json::parse("[{\"step\": 10, \"a\": 10, \"b\": 2}, {\"step\": 30, \"a\": 3.33333, \"b\": 2},"
                        " {\"step\": 60, \"a\": 1.66667, \"b\": 2}]"));
  EXPECT_EQ(json["metrics"][1]["name"], "validation.accuracy");
  EXPECT_EQ(json["metrics"][1]["best"]["a"], Json::parse("{\"step\": 50, \"value\": 0.75}")) << "larger is better";
  EXPECT_TRUE(json["metrics"][1]["final"]["b"].is_null()) << "missing is null, never 0";
  EXPECT_EQ(json["metrics"][2]["best"]["a"]["value"], 1) << "a smaller loss is better";
  EXPECT_EQ(json["numbers"]["ranks"], Json::parse("{\"a\": 4, \"b\": 2}"));
  EXPECT_NEAR(json["numbers"]["steps_per_second"]["a"].get<double>(), 10, 1e-9);
  EXPECT_NEAR(json["numbers"]["samples_per_second"]["b"].get<double>(), 320, 1e-9);
  EXPECT_EQ(json["numbers"]["seconds"], Json::parse("{\"a\": 12, \"b\": 6}"));
  EXPECT_TRUE(json["numbers"]["measured_tensor_bytes"]["a"].is_null());
  ASSERT_EQ(json["spec"].size(), 1) << "the folders are the jobs' own: " << json["spec"].dump(1);
  EXPECT_EQ(json["spec"][0]["path"], "ranks");

  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, ContainsRegex("\nranks +4 +2 +-50 %\n"));
  EXPECT_THAT(text, HasSubstr("0.5 (step 40)"));
  EXPECT_THAT(text, Not(HasSubstr("measured")));
}

TEST(JobComparisonTest, MemoryIsPredictedAndMeasured) {
  DescribeJobResponse described;
  described.mutable_predicted()->set_tensor_bytes(1 << 20);
  described.add_rank()->mutable_progress()->set_peak_tensor_bytes(5);
  described.add_rank()->mutable_progress()->set_peak_tensor_bytes(2 << 20);
  JobFacts a, b;
  a.Take(described);
  b.name = "b.textproto";
  const Json json = Json::parse(ComparisonJson(Compare(a, b, {})));
  EXPECT_EQ(json["numbers"]["predicted_tensor_bytes"]["a"], 1 << 20);
  EXPECT_EQ(json["numbers"]["measured_tensor_bytes"]["a"], 2 << 20);
  EXPECT_TRUE(json["numbers"]["measured_tensor_bytes"]["b"].is_null());
  EXPECT_TRUE(json["b"]["job_id"].is_null());
}

TEST(JobComparisonTest, SpecsOfFilesHaveNoNumbersAndHostileTextIsWrittenOut) {
  JobFacts a, b;
  a.name = "a\x1b[31m.textproto";
  b.name = "b.textproto";
  a.spec.set_name("x\x1b[2J");
  const std::string text = ComparisonText(Compare(a, b, {}));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("x\\x1b[2J"));
  EXPECT_THAT(text, Not(HasSubstr("steps/s")));
  EXPECT_EQ(ComparisonText(Compare(b, b, {})), "the specs mean the same\n");
}

}  // namespace
}  // namespace adjoin
