#include "cli/job_metrics_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

using Rows = std::vector<std::vector<std::string>>;

Rows RowsOf(const JobMetricsTable& table) {
  Rows rows;
  table.ForEachRow([&](const std::vector<std::string>& row) { rows.push_back(row); });
  return rows;
}

void Add(JobMetricsTable& table, size_t job, const std::string& line) {
  const absl::Status status = table.Add(job, line);
  ASSERT_TRUE(status.ok()) << status;
}

TEST(JobMetricsTableTest, StepsOfTwoJobsAreBesideEachOtherAndWhatIsMissingIsEmpty) {
  JobMetricsTable table({}, {"a", "b"});
  Add(table, 0, R"({"type": "step", "step": 1, "loss": 2.5})");
  Add(table, 0, R"({"type": "validation", "step": 1, "loss": 9})");
  Add(table, 0, R"({"type": "step", "step": 3, "loss": null})");
  Add(table, 1, R"({"type": "step", "step": 2, "loss": 0, "grad_norm": 0.1})");
  Add(table, 1, R"({"type": "step", "step": 3, "loss": 2.30258509299404590})");
  Add(table, 1, "no JSON");
  Add(table, 1, "[1]");
  EXPECT_THAT(RowsOf(table), ElementsAre(ElementsAre("step", "a.loss", "b.loss", "a.grad_norm", "b.grad_norm"),
                                         ElementsAre("1", "2.5", "", "", ""), ElementsAre("2", "", "0", "", "0.1"),
                                         ElementsAre("3", "", "2.302585092994046", "", "")));
}

TEST(JobMetricsTableTest, ARowOfAnEpochIsItsLastLine) {
  JobMetricsTable table(
      {.type = "step", .fields = {"loss", "lr"}, .by_epoch = true, .short_numbers = true, .most_bytes = 10000}, {"a"});
  Add(table, 0, R"({"type": "step", "step": 1, "epoch": 1, "loss": 3})");
  Add(table, 0, R"({"type": "step", "step": 2, "epoch": 1, "loss": 2.123456789, "t": 1})");
  Add(table, 0, R"({"type": "step", "step": 3, "epoch": 2, "loss": 1})");
  Add(table, 0, R"({"type": "step", "step": 4, "loss": 7})");
  EXPECT_THAT(RowsOf(table), ElementsAre(ElementsAre("epoch", "loss", "lr"), ElementsAre("1", "2.12346", ""),
                                         ElementsAre("2", "1", "")));
}

TEST(JobMetricsTableTest, LayersAreAlignedByTheirNames) {
  JobMetricsTable table(
      {.type = "layers", .fields = {"forward"}, .by_epoch = false, .short_numbers = false, .most_bytes = 10000},
      {"a", "b"});
  Add(table, 0, R"({"type": "layers", "step": 2, "layer": ["x", "y"], "forward": [0.5, 0.25]})");
  Add(table, 1, R"({"type": "layers", "step": 2, "layer": ["y", "z"], "forward": [1, 2]})");
  EXPECT_THAT(RowsOf(table),
              ElementsAre(ElementsAre("step", "layer", "a.forward", "b.forward"), ElementsAre("2", "x", "0.5", ""),
                          ElementsAre("2", "y", "0.25", "1"), ElementsAre("2", "z", "", "2")));
}

TEST(JobMetricsTableTest, LinesWithoutAStepAreAlignedByTheirOrder) {
  MetricsTableOptions options;
  options.type = "evaluation";
  JobMetricsTable table(options, {"a", "b"});
  Add(table, 0, R"({"type": "evaluation", "dataset": "=test", "loss": 1})");
  Add(table, 1, R"({"type": "evaluation", "dataset": "test", "loss": 2})");
  EXPECT_THAT(RowsOf(table), ElementsAre(ElementsAre("a.dataset", "b.dataset", "a.loss", "b.loss"),
                                         ElementsAre("=test", "test", "1", "2")));
}

TEST(JobMetricsTableTest, IsBounded) {
  MetricsTableOptions options;
  options.most_bytes = 10000;
  JobMetricsTable table(options, {"a"});
  absl::Status status;
  for (int step = 0; step < 1000 && status.ok(); ++step) {
    status = table.Add(0, absl::StrCat("{\"type\": \"step\", \"step\": ", step, ", \"loss\": 1}"));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--field"));
}

}  // namespace
}  // namespace adjoin
