// A job that measures its layers, through a real coordinator and real daemons: what it writes of them, what `adjoin
// describe` shows, and that its losses are those of the same job without, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Json = nlohmann::json;

// Layers that exchange halos, share weights and are computed again; batches in two parts, and a smaller last one.
std::string Job(const std::string& name, const std::string& train) {
  return absl::StrCat("name: \"", name, R"(" kind: TRAIN ranks: 2 seed: 1
layout { name: "rows" partition: [1, 1, 2, 1] }
layer { name: "conv1" input: "x" x: "rows" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "conv2" recompute: true conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu2" recompute: true activation { fn: "relu" } }
layer { name: "conv3" weights_of: "conv2" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "avg" adaptive_size: 1 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" synthetic { kind: "normal" samples: 10 } shape: [2, 16, 16] }
  field { name: "y" synthetic { kind: "index" samples: 10 high: 2 } dtype: "int64" } }
train { dataset: "train" batch: 4 microbatches: 2 steps: 6 optimizer { sgd { lr: 0.1 } } )",
                      train, " }\n");
}

class LayerTimesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(/*nodes=*/2, /*slots_per_node=*/1);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  // Its id; "" where it did not succeed.
  std::string RunJob(const std::string& spec) {
    const absl::StatusOr<std::string> job = cluster_->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return "";
    const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Deadline::After(absl::Seconds(120)));
    EXPECT_TRUE(end.ok()) << end.status();
    if (end.ok()) {
      EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
    }
    return *job;
  }

  std::vector<Json> Lines(const std::string& job, const std::string& type) {
    const auto result = cluster_->Cli({"metrics", job, "--type", type});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<Json> lines;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(LayerTimesTest, AreWrittenBesideThePredictionAndChangeNoLoss) {
  const std::string measured = RunJob(Job("measured", "measure_layers_every: 2"));
  const std::string plain = RunJob(Job("plain", ""));
  ASSERT_NE(measured, "");
  ASSERT_NE(plain, "");

  std::vector<double> losses, expected;
  for (const Json& line : Lines(measured, "step")) losses.push_back(line["loss"]);
  for (const Json& line : Lines(plain, "step")) expected.push_back(line["loss"]);
  ASSERT_THAT(expected, SizeIs(6));
  EXPECT_EQ(losses, expected) << "bit for bit";
  EXPECT_THAT(Lines(plain, "layers"), SizeIs(0));

  const std::vector<Json> lines = Lines(measured, "layers");
  ASSERT_THAT(lines, SizeIs(3));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    SCOPED_TRACE(line.dump());
    EXPECT_EQ(line["step"], 2 * (i + 1));
    EXPECT_THAT(line["layer"].get<std::vector<std::string>>(),
                ElementsAre("conv1", "conv2", "relu2", "conv3", "pool", "flat", "fc"));
    EXPECT_GT(line["predicted_seconds"].get<double>(), 0);
    EXPECT_NE(line["rates"], "");
    EXPECT_GE(line["seconds"].get<double>(), line["mean_seconds"].get<double>());
    double sum = 0;
    for (const std::string number : {"forward", "backward", "movement", "wait"}) {
      const auto mean = line[number].get<std::vector<double>>();
      const auto most = line["most_" + number].get<std::vector<double>>();
      ASSERT_THAT(mean, SizeIs(7));
      ASSERT_THAT(most, SizeIs(7));
      for (size_t layer = 0; layer < mean.size(); ++layer) {
        EXPECT_GE(mean[layer], 0);
        EXPECT_GE(most[layer], mean[layer] * (1 - 1e-9));
        sum += mean[layer];
      }
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, line["mean_seconds"].get<double>() * (1 + 1e-9)) << "a rank computes one layer at a time";
    for (const std::string number : {"predicted_forward", "predicted_backward", "predicted_movement"}) {
      EXPECT_THAT(line[number].get<std::vector<double>>(), SizeIs(7));
    }
    for (const size_t convolution : {0, 1, 3}) {
      EXPECT_GT(line["forward"][convolution].get<double>(), 0);
      EXPECT_GT(line["backward"][convolution].get<double>(), 0);
    }
    for (const size_t convolution : {1, 3}) {  // that of the first one is read with the data
      EXPECT_GT(line["movement"][convolution].get<double>(), 0) << "its halo";
    }
  }

  const absl::StatusOr<DescribeJobResponse> described = cluster_->Describe(measured);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_GT(described->predicted().step_seconds(), 0);
  EXPECT_NE(described->predicted().rates(), "");
  const LayerTimes& times = described->job().progress().layer_times();
  EXPECT_EQ(times.step(), 6);
  ASSERT_EQ(times.layer_size(), 7);
  for (int i = 1; i < times.layer_size(); ++i) {
    EXPECT_GE(times.layer(i - 1).mean_seconds(), times.layer(i).mean_seconds());
  }
  const auto shown = cluster_->Cli({"describe", measured});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(" predicted, "));
  EXPECT_THAT(shown.out, HasSubstr("layers in step 6, which took "));
  EXPECT_THAT(shown.out, HasSubstr("DEVIATION"));
  EXPECT_THAT(shown.out, HasSubstr("conv3"));
  const auto without = cluster_->Cli({"describe", plain});
  EXPECT_THAT(without.out, ::testing::Not(HasSubstr("layers in step")));
  const std::vector<Json> plan = Lines(measured, "plan");
  ASSERT_THAT(plan, SizeIs(1));
  EXPECT_GT(plan[0]["step_seconds"].get<double>(), 0);
}

}  // namespace
}  // namespace adjoin
