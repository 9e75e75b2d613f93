#include "cli/metrics_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Step(int step, const std::string& more = "") {
  return absl::StrCat("{\"type\": \"step\", \"step\": ", step, more, "}");
}

class MetricsLinesTest : public ::testing::Test {
 protected:
  void Add(uint64_t epoch, const std::string& bytes) {
    const absl::Status status = lines_.Add(epoch, bytes);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<std::string> seen_;
  MetricsLines lines_{[this](const std::string& line) { seen_.push_back(line); }};
};

TEST_F(MetricsLinesTest, AreWholeHoweverTheBytesCome) {
  const std::string file = absl::StrCat(Step(1), "\n", Step(2), "\n", Step(3));
  for (const char byte : file) Add(5, std::string(1, byte));
  EXPECT_THAT(seen_, ElementsAre(Step(1), Step(2))) << "the third may go on";
  EXPECT_EQ(lines_.epoch(), 5);
  EXPECT_EQ(lines_.offset(), file.size());
  Add(5, absl::StrCat("\n", Step(4), "\n"));
  EXPECT_THAT(seen_, ElementsAre(Step(1), Step(2), Step(3), Step(4)));
}

TEST_F(MetricsLinesTest, ComeOnceThoughAnotherAttemptDoesItsStepsAgain) {
  const std::string validation = "{\"type\": \"validation\", \"step\": 2}", evaluation = "{\"type\": \"evaluation\"}";
  Add(5, absl::StrCat(Step(1), "\n", Step(2), "\n", validation, "\n", Step(3), "\n{\"type\": \"st"));
  // It goes on from a checkpoint after step 1, and its times are others.
  Add(7, absl::StrCat(Step(1), "\n"));
  EXPECT_EQ(lines_.epoch(), 7);
  EXPECT_EQ(lines_.offset(), Step(1).size() + 1) << "of its own file";
  Add(7,
      absl::StrCat(Step(2, ", \"t_comp\": 1"), "\n", validation, "\n", Step(3), "\n", Step(4), "\n", evaluation, "\n"));
  EXPECT_THAT(seen_, ElementsAre(Step(1), Step(2), validation, Step(3), Step(4), evaluation));
  Add(8, absl::StrCat(Step(4), "\n", evaluation, "\n{\"type\": \"summary\"}\n"));
  EXPECT_THAT(seen_,
              ElementsAre(Step(1), Step(2), validation, Step(3), Step(4), evaluation, "{\"type\": \"summary\"}"));
}

TEST_F(MetricsLinesTest, AreBounded) {
  const std::string part(size_t{1} << 20, 'x');
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = lines_.Add(1, part);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(seen_, IsEmpty());
}

TEST(MetricsTableTest, HasTheColumnsOfTheFirstLineOfItsType) {
  MetricsTable table("step");
  EXPECT_EQ(table.Add("{\"type\": \"validation\", \"step\": 1}"), "");
  EXPECT_EQ(table.Add("no JSON"), "");
  EXPECT_EQ(
      table.Add("{\"type\": \"step\", \"step\": 1, \"loss\": 2.25, \"per_class\": [1, 2], \"a,b\": \"say \\\"x\\\"\"}"),
      "step,loss,per_class,\"a,b\"\n1,2.25,\"[1,2]\",\"say \"\"x\"\"\"\n");
  EXPECT_EQ(table.Add("{\"type\": \"step\", \"loss\": null, \"step\": 2, \"new\": 3}"), "2,,,\n");
}

TEST(MetricsTableTest, HasTheChosenColumnsAndNamesAreDataOnly) {
  MetricsTable table("evaluation", {"loss", "dataset", "none"});
  EXPECT_EQ(table.Add("{\"type\": \"evaluation\", \"dataset\": \"=1+1\\u001b[31m\", \"loss\": -1.5, \"x\": 1}"),
            "loss,dataset,none\n-1.5,\"'=1+1\\x1b[31m\",\n");
}

TEST(MetricsFieldsTest, AreChosenAndNamedWhereNoLineHasThem) {
  MetricsFields fields("step", {"loss"});
  EXPECT_TRUE(fields.Check().ok()) << "no line has come";
  fields.Add("{\"type\": \"validation\", \"step\": 1, \"loss\": 2}");
  EXPECT_TRUE(fields.Check().ok()) << "none of this type";
  const std::string line = "{\"type\": \"step\", \"step\": 1, \"lr\": 0.1, \"t\": 2}";
  fields.Add(line);
  EXPECT_EQ(fields.Check().message(), "no line of type step has a field 'loss'; there are: lr, step, t");
  EXPECT_EQ(fields.Chosen("job-1", line), "{\"job\":\"job-1\",\"type\":\"step\",\"step\":1}");
  fields.Add(Step(2, ", \"loss\": 1.5"));
  EXPECT_TRUE(fields.Check().ok());
  EXPECT_EQ(fields.Chosen("", Step(2, ", \"loss\": 2.3053770065307617, \"lr\": 1")),
            "{\"type\":\"step\",\"step\":2,\"loss\":2.3053770065307617}");
  EXPECT_EQ(MetricsFields("", {}).Chosen("", line), line) << "as it was";
}

TEST(MetricsTableTest, HasARowForEachLayer) {
  MetricsTable table("layers");
  EXPECT_EQ(table.Add("{\"type\": \"layers\", \"step\": 2, \"layer\": [\"a\", \"b\"], \"forward\": [0.5, null], "
                      "\"other\": [1]}"),
            "step,layer,forward,other\n2,a,0.5,[1]\n2,b,,[1]\n");
  EXPECT_EQ(table.Add("{\"type\": \"layers\", \"step\": 4, \"layer\": [\"c\"], \"forward\": [1]}"), "4,c,1,\n");
  EXPECT_EQ(table.Add("{\"type\": \"layers\", \"step\": 6, \"layer\": [], \"forward\": []}"), "");
  EXPECT_EQ(table.Add("{\"type\": \"layers\", \"step\": 8, \"layer\": \"none\"}"), "8,none,,\n");
}

}  // namespace
}  // namespace adjoin
