// `adjoin predict` and `adjoin evaluate` of a job that two real ranks have trained: the file of predictions and the
// metric that another job measures agree about data that the test has written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "nlohmann/json.hpp"
#include "tests/harness/local_cluster.h"
#include "tests/predict/npy_numbers.h"

namespace adjoin {
namespace {

using ::testing::EndsWith;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int kSamples = 6, kInputs = 3, kOutputs = 2;

constexpr char kJob[] = R"job(name: "line" kind: TRAIN ranks: 2 seed: 1
layout { name: "batch" partition: [2, 1] }
layer { name: "fc" input: "x" x: "batch" linear { out_features: 2 } }
loss { kind: "mse" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" npy { path: "x.npy" } shape: [3] }
  field { name: "y" npy { path: "y.npy" } shape: [2] } }
train { dataset: "train" batch: 2 steps: 5 optimizer { sgd { lr: 0.1 } } }
checkpoint { dir: "kept" every_steps: 2 }
output_dir: "models/line"
)job";

// The values of an NPY file of float32; none where it is something else.
std::vector<float> ReadNpy(const std::string& path) {
  const std::string bytes = ReadFile(path);
  if (bytes.size() < 10 || bytes.find("'<f4'") == std::string::npos) return {};
  const size_t begin = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  std::vector<float> values((bytes.size() - begin) / 4);
  std::memcpy(values.data(), bytes.data() + begin, 4 * values.size());
  return values;
}

class DerivedCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = LocalCluster::Start(1, 2);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    WriteNpy(cluster_->data_root() + "/x.npy", Numbers(kSamples * kInputs, 0.5f), kInputs);
    WriteNpy(cluster_->data_root() + "/y.npy", Numbers(kSamples * kOutputs, 0.25f), kOutputs);
    // Other data, for --data.
    WriteNpy(cluster_->data_root() + "/x2.npy", Numbers(4 * kInputs, 1.5f), kInputs);
  }
  LocalCluster::CliResult Cli(const std::vector<std::string>& arguments) { return cluster_->Cli(arguments); }
  std::string Refusal(const std::vector<std::string>& arguments) {
    const LocalCluster::CliResult result = Cli(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    return result.err;
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(DerivedCommandTest, PredictionsAndMetricsAgree) {
  const std::string file = cluster_->folder() + "/job.textproto";
  std::ofstream(file) << kJob;
  EXPECT_EQ(Cli({"submit", file, "--set", "train.steps=100000000", "--set", "checkpoint.dir=other"}).out, "job-1\n");
  EXPECT_THAT(Refusal({"predict", "job-1"}), HasSubstr("its model is there once it has succeeded"));
  ASSERT_EQ(Cli({"cancel", "job-1"}).exit_code, 0);
  EXPECT_EQ(Cli({"follow", "job-1"}).exit_code, 103);
  EXPECT_THAT(Refusal({"predict", "job-1"}), HasSubstr("job-1 is cancelled and has published no model; --best or"));
  // One that never runs, as there are two slots.
  EXPECT_EQ(Cli({"submit", file, "--set", "ranks=3", "--unset", "checkpoint", "--unset", "output_dir"}).out, "job-2\n");
  EXPECT_THAT(Refusal({"predict", "job-2"}), EndsWith("job-2 is pending: its model is there once it has succeeded\n"));
  ASSERT_EQ(Cli({"cancel", "job-2"}).exit_code, 0);
  EXPECT_THAT(Refusal({"predict", "job-2"}), EndsWith("job-2 is cancelled and has published no model\n"));
  const LocalCluster::CliResult trained = Cli({"submit", file, "-f"});
  ASSERT_EQ(trained.exit_code, 0) << trained.out << trained.err;

  const LocalCluster::CliResult predicted = Cli({"predict", "line", "-f", "--batch", "4"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.out << predicted.err;
  const std::vector<float> fc = ReadNpy(cluster_->output_root() + "/models/line-predict/fc.npy");
  const std::vector<float> y = Numbers(kSamples * kOutputs, 0.25f);
  ASSERT_EQ(fc.size(), y.size());
  double squares = 0;
  for (size_t i = 0; i < y.size(); ++i) squares += (fc[i] - y[i]) * (fc[i] - y[i]);

  const LocalCluster::CliResult evaluated = Cli({"evaluate", "line", "-f", "--metric", "mse,loss"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.out << evaluated.err;
  nlohmann::json result;
  std::ifstream metrics(cluster_->output_root() + "/models/line-evaluate/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    nlohmann::json each = nlohmann::json::parse(line, nullptr, false);
    if (each["type"] == "evaluation") result = each;
  }
  ASSERT_TRUE(result.contains("mse")) << evaluated.out;
  EXPECT_EQ(result["samples"], kSamples);
  EXPECT_NEAR(result["mse"], squares / static_cast<double>(y.size()), 1e-6);
  EXPECT_NEAR(result["loss"], squares / static_cast<double>(y.size()), 1e-6);

  // On other ranks than it was trained on.
  const LocalCluster::CliResult alone =
      Cli({"predict", "line", "-f", "--auto", "--ranks", "1", "--name", "alone", "--output-dir", "alone"});
  ASSERT_EQ(alone.exit_code, 0) << alone.out << alone.err;
  EXPECT_EQ(nlohmann::json::parse(Cli({"describe", "alone", "-o", "json"}).out)["spec"]["ranks"], 1);
  EXPECT_THAT(ReadNpy(cluster_->output_root() + "/alone/fc.npy"), Pointwise(FloatNear(1e-6f), fc));

  // Data of a file, without targets.
  const std::string data = cluster_->folder() + "/new.textproto";
  std::ofstream(data) << "dataset { name: \"new\" field { name: \"x\" npy { path: \"x2.npy\" } shape: [3] } }";
  const LocalCluster::CliResult other =
      Cli({"predict", "line", "-f", "--data", data, "--name", "other", "--output-dir", "others", "--input", "fc"});
  ASSERT_EQ(other.exit_code, 0) << other.out << other.err;
  EXPECT_EQ(ReadNpy(cluster_->output_root() + "/others/fc.npy").size(), 4 * kOutputs);
}

TEST_F(DerivedCommandTest, ADryRunPrintsTheJobAndMistakesAreRefused) {
  const std::string file = cluster_->folder() + "/job.textproto";
  std::ofstream(file) << kJob;
  ASSERT_EQ(Cli({"submit", file, "-f"}).exit_code, 0);
  const LocalCluster::CliResult dry = Cli({"predict", "job-1", "--dry-run", "--set", "ranks=3", "--format", "hdf5"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("from_output: \"models/line/model.safetensors\""));
  EXPECT_THAT(dry.out, HasSubstr("ranks: 3"));
  EXPECT_THAT(dry.out, HasSubstr("format: \"hdf5\""));
  EXPECT_EQ(nlohmann::json::parse(Cli({"ps", "-o", "json"}).out)["job"].size(), 1) << "nothing was submitted";
  const std::string plan_file = cluster_->folder() + "/derived.textproto";
  std::ofstream(plan_file) << Cli({"evaluate", "job-1", "--dry-run"}).out;
  EXPECT_EQ(Cli({"plan", plan_file}).exit_code, 0) << "what is printed is a job";

  const LocalCluster::CliResult small = Cli({"evaluate", "job-1", "--dry-run", "--auto", "--memory", "64MiB"});
  EXPECT_EQ(small.exit_code, 0) << small.err;
  EXPECT_THAT(small.out, HasSubstr("The layouts were chosen by"));
  EXPECT_THAT(Refusal({"predict", "job-1", "--auto", "--memory", "10"}), HasSubstr("nothing fits 10 bytes"));
  EXPECT_THAT(Refusal({"predict", "job-1", "--ranks", "1"}), HasSubstr("add --auto"));
  EXPECT_THAT(Refusal({"predict", "job-1", "--dataset", "tset"}), HasSubstr("job-1: --dataset: there is no data set"));
  EXPECT_THAT(Refusal({"predict", "job-1", "--input", "f"}), HasSubstr("there is no layer \"f\""));
  EXPECT_THAT(Refusal({"evaluate", "job-1", "--metric", "accuracy"}), HasSubstr("accuracy"));
  EXPECT_THAT(Refusal({"predict", "job-1", "--data", cluster_->folder() + "/none"}), HasSubstr("No such file"));
  EXPECT_THAT(Refusal({"predict", "job-9"}), HasSubstr("job-9"));
  EXPECT_THAT(Refusal({"predict", "job-1", "--set", "layer[fc].x=bach"}), HasSubstr("error: prediction of job-1: "));
  EXPECT_EQ(Cli({"predict", "job-1", "--format", "png"}).exit_code, 2);
}

// Trained on blocks, applied to whole images of different extents.
constexpr char kImages[] = R"job(name: "net" kind: TRAIN ranks: 2 seed: 1
layout { name: "rows" partition: [1, 1, 2, 1] }
layer { name: "down" input: "x" x: "rows" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "up" upsample { mode: "nearest" scale: 2 } }
layer { name: "skip" input: ["down", "up"] concat { arg: 1 } }
layer { name: "out" conv { out_channels: 1 window { kernel: 1 } } }
loss { kind: "mse" input: "out" target: "y" }
dataset { name: "images"
  field { name: "x" npy { path: ["a.npy", "b.npy"] } shape: [1, -1, -1] }
  field { name: "y" npy { path: ["a.npy", "b.npy"] } shape: [1, -1, -1] }
  blocks { size: [4, 4] per_epoch: 4 } }
train { dataset: "images" batch: 2 steps: 2 optimizer { sgd { lr: 0.01 } } }
output_dir: "net"
)job";

TEST_F(DerivedCommandTest, ImagesOfDifferentExtentsAreTakenOneByOneOrRefusedByName) {
  const std::string file = cluster_->folder() + "/images.textproto";
  std::ofstream(file) << kImages;
  WriteNpy(cluster_->data_root() + "/a.npy", Numbers(8 * 6, 0.5f), 6);
  WriteNpy(cluster_->data_root() + "/b.npy", Numbers(4 * 10, 0.25f), 10);
  ASSERT_EQ(Cli({"submit", file, "-f"}).exit_code, 0);
  const LocalCluster::CliResult predicted = Cli({"predict", "net", "-f"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.out << predicted.err;
  EXPECT_EQ(ReadNpy(cluster_->output_root() + "/net-predict/out-0.npy").size(), 8 * 6);
  EXPECT_EQ(ReadNpy(cluster_->output_root() + "/net-predict/out-1.npy").size(), 4 * 10);

  const std::string job = cluster_->folder() + "/predict.textproto";
  std::ofstream(job) << Cli({"predict", "net", "--dry-run"}).out;
  const LocalCluster::CliResult plan = Cli({"plan", job, "--wide", "--data-root", cluster_->data_root()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out,
              HasSubstr("what needs volumes of data set \"images\" is shown and predicted for the largest of"));
  // Layouts are chosen for the largest, 8x6: what is predicted is what a plan of the chosen job says.
  const LocalCluster::CliResult chosen =
      Cli({"plan", "--auto", job, "--data-root", cluster_->data_root(), "-o", "json"});
  ASSERT_EQ(chosen.exit_code, 0) << chosen.err;
  const std::string emitted = cluster_->folder() + "/emitted.textproto";
  std::ofstream(emitted) << Cli({"plan", "--auto", job, "--data-root", cluster_->data_root(), "--emit"}).out;
  const LocalCluster::CliResult of_emitted = Cli({"plan", emitted, "--data-root", cluster_->data_root(), "-o", "json"});
  ASSERT_EQ(of_emitted.exit_code, 0) << of_emitted.err;
  const nlohmann::json report = nlohmann::json::parse(chosen.out), planned = nlohmann::json::parse(of_emitted.out);
  EXPECT_EQ(report["plan"], planned["plan"]);
  EXPECT_EQ(report["memory"]["bytes"], planned["memory"]["bytes"]);
  EXPECT_EQ(report["warning"], planned["warning"]);
  EXPECT_THAT(chosen.out, HasSubstr("for the largest of 2 files, 8x6"));
  const LocalCluster::CliResult unread = Cli({"submit", "--auto", job, "-f", "--set", "output_dir=unread"});
  EXPECT_EQ(unread.exit_code, 0) << unread.err;
  EXPECT_THAT(unread.err,
              HasSubstr("than those of the volumes of data set \"images\", whose files were not read here"));
  WriteNpy(cluster_->data_root() + "/b.npy", Numbers(4 * 9, 0.25f), 9);
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"predict", "net", "--output-dir", "other"},
                                             {"submit", job, "--set", "output_dir=other"},
                                             {"plan", job, "--data-root", cluster_->data_root()}}) {
    const std::string refusal = Refusal(command);
    EXPECT_THAT(refusal, HasSubstr("has the extents 4x9, which the network does not take: ")) << command[0];
    EXPECT_THAT(refusal, HasSubstr("\"skip\"")) << command[0];
    EXPECT_THAT(refusal, HasSubstr("b.npy")) << command[0];
  }
}

}  // namespace
}  // namespace adjoin
