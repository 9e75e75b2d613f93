#include "worker/training/metrics_writer.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace adjoin {
namespace {

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(MetricsWriterTest, LinesAreInTheFileAtOnceAndExact) {
  const std::string path = testing::TempDir() + "/metrics.jsonl";
  std::ofstream(path) << "an older run\n";
  auto writer = MetricsWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const double loss = 2.3025850929940459;
  ASSERT_TRUE((*writer)->Write({{"step", int64_t{1}}, {"loss", loss}}).ok());
  ASSERT_EQ(Lines(path).size(), 1u) << "before the writer ends";
  EXPECT_EQ(Lines(path)[0], "{\"step\": 1, \"loss\": 2.3025850929940459}");
  ASSERT_TRUE((*writer)->Write({{"data \"set\"", std::string("t\n\xff")}, {"loss", NAN}}).ok());
  ASSERT_TRUE((*writer)->Sync().ok());
  const auto first = nlohmann::json::parse(Lines(path)[0]);
  EXPECT_EQ(first["loss"].get<double>(), loss);
  const auto second = nlohmann::json::parse(Lines(path)[1]);
  EXPECT_TRUE(second["loss"].is_null());
  EXPECT_FALSE(MetricsWriter::Create(testing::TempDir() + "/no/such/folder/m").ok());
}

TEST(MetricsWriterTest, TwoWritersDoNotShareAFile) {
  const std::string path = testing::TempDir() + "/shared.jsonl";
  auto first = MetricsWriter::Create(path);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE((*first)->Write({{"step", int64_t{1}}}).ok());
  const absl::Status refused = MetricsWriter::Create(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(Lines(path).size(), 1u) << "what the first has written stays";
  EXPECT_TRUE(MetricsWriter::InUse(path));
  first->reset();
  EXPECT_FALSE(MetricsWriter::InUse(path));
  EXPECT_TRUE(MetricsWriter::Create(path).ok());
  EXPECT_EQ(Lines(path).size(), 0u);
}

}  // namespace
}  // namespace adjoin
