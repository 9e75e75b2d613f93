#include "worker/runtime/session.h"

#include <fstream>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "layers/plan/builtin_rules.h"
#include "layers/plan/planner.h"
#include "layers/plan/spec_parser.h"
#include "primitives/geometry/box.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/runtime/idx_test_files.h"
#include "worker/runtime/safetensors.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// 21 images of 6x6 whose class is the brighter of the upper and the lower half; a batch of 4 leaves one over.
constexpr int64_t kSamples = 21;

constexpr char kJob[] = R"(
name: "small" kind: TRAIN ranks: 2 seed: 3
layout { name: "rows" partition: [1, 1, 2, 1] }
layer { name: "conv" input: "image" x: "rows" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu" activation { fn: "relu" } }
layout { name: "all" partition: [1, 1, 1, 1] rank: [1] }
layer { name: "together" y: "all" repartition {} }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "set" shuffle: true
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "label" idx { path: "labels" } dtype: "int64" } }
train { dataset: "set" batch: 4 epochs: 3 optimizer { sgd { lr: 0.1 momentum: 0.9 } } }
evaluate { dataset: "set" metric: "accuracy" }
output_dir: "out/small"
)";

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    ASSERT_EQ(system(("rm -rf " + root_ + " && mkdir -p " + root_).c_str()), 0);
    std::vector<double> images;
    std::vector<double> labels;
    for (int64_t i = 0; i < kSamples * 36; ++i) {
      const bool lower = i % 36 >= 18;
      images.push_back(lower == (i / 36 % 2 == 1) ? 150 + i * 7 % 100 : i * 11 % 100);
    }
    for (int64_t i = 0; i < kSamples; ++i) labels.push_back(i % 2);
    WriteFile(root_ + "images", Gzip(IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, images)));
    WriteFile(root_ + "labels", IdxBytes(IdxType::kUInt8, {kSamples}, labels));
    spec_ = ParseSpec(kJob, "job").value().spec;
  }

  absl::Status Run() {
    ADJOIN_ASSIGN_OR_RETURN(plan_, Planner::Build(spec_, {{"set", kSamples}}, BuiltinLayerRules()));
    results_.assign(spec_.ranks(), {});
    progress_.assign(spec_.ranks(), {});
    return RunRanks(spec_.ranks(), TransportKind::kInMemoryDelayed, 4, [&](Transport& t) -> absl::Status {
      SessionOptions options;
      options.plan = plan_;
      options.data_root = root_;
      options.output_root = root_;
      options.transport = &t;
      options.timeout = absl::Seconds(20);
      options.on_progress = [&](const JobProgress& p) { progress_[t.rank()].push_back(p); };
      options.log = [this](const std::string& line) {
        std::lock_guard<std::mutex> lock(mutex_);
        log_ += line + "\n";
      };
      ADJOIN_ASSIGN_OR_RETURN(results_[t.rank()], RunSession(options));
      return absl::OkStatus();
    });
  }

  std::vector<nlohmann::json> Metrics() const {
    std::vector<nlohmann::json> lines;
    std::ifstream in(root_ + "out/small/metrics.jsonl");
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  std::string root_;
  JobSpec spec_;
  Plan plan_;
  std::vector<SessionResult> results_;
  std::vector<std::vector<JobProgress>> progress_;
  std::mutex mutex_;
  std::string log_;
};

TEST_F(SessionTest, TrainsEvaluatesAndWrites) {
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(results_[0].artifacts, ElementsAre("metrics.jsonl", "model.safetensors"));
  EXPECT_TRUE(results_[1].artifacts.empty());
  const std::vector<nlohmann::json> lines = Metrics();
  ASSERT_EQ(lines.size(), 18u + 2) << "5 full steps and a short one, three times; evaluation; summary";
  for (int i = 0; i < 18; ++i) {
    EXPECT_EQ(lines[i]["type"], "step");
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i]["epoch"], i / 6 + 1);
    EXPECT_EQ(lines[i]["samples"], i % 6 == 5 ? 1 : 4);
    EXPECT_GT(lines[i]["t_comp"], 0.0);
    EXPECT_GT(lines[i]["t_sync"], 0.0);
    EXPECT_EQ(lines[i]["bytes_sent"], plan_.program(i % 6 == 5 ? 1 : 0).bytes_per_step(0));
  }
  EXPECT_LT(lines[17]["loss"], lines[0]["loss"]);
  EXPECT_EQ(lines[18]["type"], "evaluation");
  EXPECT_EQ(lines[18]["samples"], kSamples);
  EXPECT_EQ(lines[18]["correct"], kSamples) << "an easy problem";
  EXPECT_EQ(lines[19]["type"], "summary");
  for (const SessionResult& result : results_) {
    const JobProgress& last = result.final;
    EXPECT_EQ(last.metric().at("accuracy"), 1.0);
    EXPECT_EQ(last.metric().at("samples"), kSamples);
    EXPECT_EQ(last.total_epochs(), 3u);
    EXPECT_EQ(result.steps.at("train"), 15);
    EXPECT_EQ(result.steps.at("train_tail"), 3);
  }
  for (const char* time : {"t_comp", "t_sync"}) {
    const auto of_rank = [&](int rank) {
      const JobProgress& last = results_[rank].final;
      return std::string(time) == "t_comp" ? last.compute_seconds() : last.sync_seconds();
    };
    double own = 0;
    for (int i = 0; i < 18; ++i) own += lines[i][time].get<double>() / 18;
    EXPECT_NEAR(of_rank(0), own, 1e-9) << "each rank reports its own mean";
    EXPECT_NEAR(lines[19][time].get<double>(), (of_rank(0) + of_rank(1)) / 2, 1e-9) << "the summary has that over ranks";
  }
  for (const auto& reports : progress_) {
    std::set<std::string> phases;
    for (const JobProgress& p : reports) phases.insert(p.phase());
    EXPECT_THAT(phases, ElementsAre("evaluating", "training", "writing weights"));
  }
  EXPECT_THAT(log_, HasSubstr("largest local tensor"));
}

TEST_F(SessionTest, GoesOnFromItsOwnWeights) {
  ASSERT_TRUE(Run().ok());
  const double trained = Metrics()[17]["loss"];
  spec_.mutable_weights()->set_init_from("out/small/model.safetensors");
  spec_.mutable_train()->set_steps(1);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Metrics().size(), 3u) << "one step: the older file was replaced";
  EXPECT_LT(Metrics()[0]["loss"], 2 * trained + 0.1);
  EXPECT_THAT(log_, HasSubstr("weights from"));
}

// One tensor of the file that the last run wrote.
template <typename T>
std::vector<T> SavedTensor(const std::string& path, const std::string& name) {
  auto reader = SafetensorsReader::Open(path);
  if (!reader.ok() || (*reader)->Find(name) == nullptr) return {};
  const SafetensorsEntry& entry = *(*reader)->Find(name);
  std::vector<Interval> whole;
  for (int64_t extent : entry.shape) whole.push_back({0, extent});
  std::vector<T> values(entry.Bytes() / sizeof(T));
  return (*reader)->ReadBox(entry, Box(whole), values.data()).ok() ? values : std::vector<T>();
}

TEST_F(SessionTest, RunningStatisticsAreSavedAndLoaded) {
  std::string job = kJob;
  job.insert(job.find("layer { name: \"relu\""), "layer { name: \"norm\" norm { kind: \"batch\" } }\n");
  spec_ = ParseSpec(job, "job").value().spec;
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  const std::string path = root_ + "out/small/model.safetensors";
  const auto mean = SavedTensor<float>(path, "norm.running_mean");
  const auto variance = SavedTensor<float>(path, "norm.running_var");
  ASSERT_EQ(mean.size(), 2u);
  EXPECT_NE(mean[0], 0.0f);
  ASSERT_EQ(variance.size(), 2u);
  EXPECT_NE(variance[0], 1.0f);
  EXPECT_THAT(SavedTensor<int64_t>(path, "norm.num_batches_tracked"), ElementsAre(18)) << "full and short batches";
  EXPECT_EQ(results_[0].final.metric().at("accuracy"), 1.0) << "with the running statistics";

  // Where new batches count nothing, what was loaded is saved again.
  spec_.mutable_layer(1)->mutable_norm()->set_momentum(0);
  spec_.mutable_weights()->set_init_from("out/small/model.safetensors");
  spec_.mutable_train()->set_steps(1);
  const absl::Status second = Run();
  ASSERT_TRUE(second.ok()) << second;
  EXPECT_EQ(SavedTensor<float>(path, "norm.running_mean"), mean);
  EXPECT_EQ(SavedTensor<float>(path, "norm.running_var"), variance);
  EXPECT_THAT(SavedTensor<int64_t>(path, "norm.num_batches_tracked"), ElementsAre(19));
}

// Whether a pixel is bright, said of four in five pixels.
TEST_F(SessionTest, AccuracyPerPixelIsOfTheTargetsThatCount) {
  constexpr char kPixels[] = R"(
name: "small" kind: TRAIN ranks: 2 seed: 3
layout { name: "rows" partition: [1, 1, 2, 1] }
layer { name: "conv" input: "image" x: "rows" conv { out_channels: 2 window { kernel: 1 } } }
loss { kind: "mse" input: "conv" target: "two" weight: 1e-6 }
loss { kind: "cross_entropy" input: "conv" target: "bright" ignore_index: 9 }
dataset { name: "set"
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "two" idx { path: "two" } shape: [2, 6, 6] }
  field { name: "bright" idx { path: "bright" } shape: [6, 6] dtype: "int64" } }
train { dataset: "set" batch: 4 epochs: 10 optimizer { sgd { lr: 1 momentum: 0.9 } } }
evaluate { dataset: "set" metric: "accuracy" }
output_dir: "out/small"
)";
  spec_ = ParseSpec(kPixels, "job").value().spec;
  std::vector<double> bright;
  int64_t counted = 0;
  for (int64_t i = 0; i < kSamples * 36; ++i) {
    const bool counts = i % 5 != 0;
    bright.push_back(!counts ? 9 : (i % 36 >= 18) == (i / 36 % 2 == 1) ? 1 : 0);
    counted += counts ? 1 : 0;
  }
  WriteFile(root_ + "bright", IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, bright));
  WriteFile(root_ + "two", IdxBytes(IdxType::kUInt8, {kSamples, 2, 6, 6}, std::vector<double>(kSamples * 72, 1)));
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  for (const SessionResult& result : results_) {
    EXPECT_EQ(result.final.metric().at("correct"), counted);
    EXPECT_EQ(result.final.metric().at("accuracy"), 1.0);
  }

  spec_.mutable_evaluate()->set_metric(0, "loss");
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(results_[0].final.metric().count("accuracy"), 0u);
  EXPECT_GT(results_[0].final.metric().at("loss"), 0);

  // A label that is no class ends the job, and says which.
  bright[40] = 2;
  WriteFile(root_ + "bright", IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, bright));
  EXPECT_THAT(std::string(Run().message()),
              HasSubstr("loss 1, cross_entropy of \"conv\": the target \"bright\" holds 2, but the prediction has 2"
                        " classes, 0 to 1, and ignore_index is 9"));
}

TEST_F(SessionTest, ALossThatIsNotFiniteEndsTheJob) {
  spec_.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e30);
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("step "), HasSubstr("the loss is")));
}

TEST_F(SessionTest, BadFilesAreNamed) {
  const std::string images = ReadFile(root_ + "images");
  WriteFile(root_ + "images", images.substr(0, images.size() / 2));
  EXPECT_THAT(std::string(Run().message()), AllOf(HasSubstr("images"), HasSubstr("truncated")));
  WriteFile(root_ + "images", images);
  ASSERT_TRUE(Run().ok());
  spec_.mutable_layer(0)->set_name("other");
  spec_.mutable_weights()->set_init_from("out/small/model.safetensors");
  EXPECT_THAT(std::string(Run().message()),
              AllOf(HasSubstr("missing: other.weight, other.bias"),
                    HasSubstr("not in the model: conv.weight, conv.bias")));
}

TEST_F(SessionTest, AnAbortEndsTheSession) {
  auto plan = Planner::Build(spec_, {{"set", kSamples}}, BuiltinLayerRules());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status status = RunRanks(2, TransportKind::kInMemory, 4, [&](Transport& t) -> absl::Status {
    SessionOptions options;
    options.plan = *plan;
    options.data_root = root_;
    options.output_root = root_;
    options.transport = &t;
    options.on_progress = [&](const JobProgress& p) {
      if (t.rank() == 1) t.Abort(absl::CancelledError("told to stop"));
    };
    return RunSession(options).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("told to stop"));
}

}  // namespace
}  // namespace adjoin
