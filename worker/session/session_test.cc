#include "worker/session/session.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "worker/data/idx_test_files.h"
#include "worker/model/safetensors.h"
#include "worker/session/attempt_output.h"
#include "worker/session/session_fixture.h"
#include "worker/training/session_activity.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

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
  const std::vector<nlohmann::json> memory = Metrics(/*of_memory=*/true);
  ASSERT_EQ(memory.size(), 1u + 3) << "predicted, and measured after each epoch";
  EXPECT_EQ(memory[0]["type"], "plan");
  EXPECT_GT(memory[0]["tensor_bytes"], 0);
  EXPECT_GT(memory[0]["resident_bytes"], memory[0]["tensor_bytes"]);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    EXPECT_EQ(memory[epoch]["step"], 6 * epoch);
    EXPECT_EQ(memory[epoch]["epoch"], epoch);
    EXPECT_GT(memory[epoch]["peak_resident_bytes"], 0);
    EXPECT_GT(memory[epoch]["step_seconds"], 0.0);
  }
  EXPECT_EQ(lines[18]["type"], "evaluation");
  EXPECT_EQ(lines[18]["samples"], kSamples);
  EXPECT_EQ(lines[18]["correct"], kSamples) << "an easy problem";
  EXPECT_EQ(lines[19]["type"], "summary");
  for (const SessionResult& result : results_) {
    const JobProgress& last = result.final;
    EXPECT_EQ(last.metric().at("accuracy"), 1.0);
    EXPECT_EQ(last.metric().at("samples"), kSamples);
    EXPECT_EQ(last.total_epochs(), 3u);
    EXPECT_EQ(last.phase(), "finished");
    EXPECT_EQ(last.step(), 18u) << "of training, not of a later phase";
    EXPECT_EQ(last.total_steps(), 18u);
    EXPECT_GE(last.bytes_sent(), result.bytes_sent.at("train") + result.bytes_sent.at("train_tail"));
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
    EXPECT_NEAR(lines[19][time].get<double>(), (of_rank(0) + of_rank(1)) / 2, 1e-9)
        << "the summary has that over ranks";
  }
  for (const auto& reports : progress_) {
    std::set<std::string> phases;
    for (const JobProgress& p : reports) phases.insert(p.phase());
    EXPECT_THAT(phases, ElementsAre("evaluating", "finished", "training", "writing weights"));
  }
  EXPECT_THAT(log_, HasSubstr("largest local tensor"));
}

TEST_F(SessionTest, StartsFromTheWeightsThatItWrote) {
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

// Each pixel has a label, bright or not; one in five is ignored.
TEST_F(SessionTest, AccuracyPerPixelCountsOnlyTargetsThatCount) {
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

  // A label that is no class ends the job, whose error names it.
  bright[40] = 2;
  WriteFile(root_ + "bright", IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, bright));
  EXPECT_THAT(
      std::string(Run().message()),
      HasSubstr(
          "data set \"set\", field \"bright\": sample 1, position [0, 4]: the label is 2; the loss compares it with"
          " 2 classes, so that 0 to 1 are allowed, and 9, which it ignores"));
}

TEST_F(SessionTest, OnlyTheLatestAttemptPublishes) {
  spec_.mutable_train()->set_steps(1);
  const auto run = [&](uint64_t epoch, const std::string& job, const Adapt& adapt = nullptr) {
    return Run([=](int rank, SessionOptions& options) {
      options.epoch = epoch;
      options.job_id = job;
      if (adapt) adapt(rank, options);
    });
  };
  ASSERT_EQ(run(4, "job-1"), absl::OkStatus());
  EXPECT_THAT(results_[0].artifacts, ElementsAre("metrics.jsonl", "model.safetensors"));
  EXPECT_EQ(Metrics().size(), 3u);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root_ + "out/small"))
    names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre(".epoch", ".epoch.lock", "metrics.jsonl", "model.safetensors"));
  ASSERT_EQ(run(7, "job-2"), absl::OkStatus()) << "a second job with the same folder";

  // Attempt 8 loses its job to attempt 9 while it trains.
  const std::string model = ReadFile(root_ + "out/small/model.safetensors");
  absl::StatusOr<std::unique_ptr<AttemptOutput>> ninth = absl::UnknownError("not begun");
  absl::Status status = run(8, "job-3", [&](int rank, SessionOptions& options) {
    if (rank != 0) return;
    options.on_progress = [&](const JobProgress& progress) {
      if (progress.phase() != "training" || ninth.ok()) return;
      ninth =
          AttemptOutput::Begin({.root = root_, .output_dir = "out/small", .epoch = 9, .job_id = "job-3", .store_id = 0},
                               Deadline::After(absl::Seconds(10)));
    };
  });
  ASSERT_TRUE(ninth.ok()) << ninth.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("attempt 8 is no longer the job's: attempt 9 has begun"));
  EXPECT_EQ(ReadFile(root_ + "out/small/model.safetensors"), model);
  status = run(8, "job-3");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << "it began too late: " << status;
}

// Somebody removes the folder of the results while the job trains.
TEST_F(SessionTest, KeepsItsResultsWhereTheirFolderWasRemoved) {
  ASSERT_TRUE(Run().ok());
  const std::vector<nlohmann::json> undisturbed = Metrics();
  std::filesystem::remove_all(root_ + "out");
  const absl::Status status = Run([this](int rank, SessionOptions& options) {
    options.epoch = 4;
    options.job_id = "job-1";
    if (rank != 0) return;
    options.on_progress = [this, removed = false](const JobProgress& progress) mutable {
      if (removed || progress.step() == 0) return;
      removed = std::filesystem::remove_all(root_ + "out") > 0;
    };
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::filesystem::exists(root_ + "out/small/model.safetensors"));
  const std::vector<nlohmann::json> lines = Metrics();
  ASSERT_EQ(lines.size(), undisturbed.size());
  for (size_t i = 0; i < 18; ++i) EXPECT_EQ(lines[i]["loss"], undisturbed[i]["loss"]) << i;
}

// Rank 1 begins to train only once rank 0 reports that it waits.
TEST_F(SessionTest, ReportsTheMovementThatItWaitsIn) {
  SessionActivity waiter;
  EXPECT_EQ(waiter.Now().activity(), STARTING_UP);
  RankPulse seen;
  const absl::Status status = Run([&](int rank, SessionOptions& options) {
    if (rank == 0) {
      options.activity = &waiter;
      return;
    }
    options.on_progress = [&](const JobProgress& progress) {
      if (progress.phase() != "training" || progress.step() != 0) return;
      const Deadline deadline = Deadline::After(absl::Seconds(15));
      while (seen.activity() != WAITING && !deadline.Expired()) seen = waiter.Now();
    };
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen.activity(), WAITING);
  EXPECT_EQ(seen.operator_(), "conv.x");
  EXPECT_EQ(seen.generation(), 1u);
  EXPECT_EQ(seen.phase(), "training");
  EXPECT_EQ(seen.step(), 0u);
  EXPECT_EQ(seen.step_seconds(), 0);
  EXPECT_EQ(waiter.Now().phase(), "finished");
  EXPECT_EQ(waiter.Now().activity(), COMPUTING) << "its communicator is gone";
  EXPECT_GT(waiter.Now().step_seconds(), 0);
}

TEST_F(SessionTest, NamesBadFiles) {
  const std::string images = ReadFile(root_ + "images");
  WriteFile(root_ + "images", images.substr(0, images.size() / 2));
  EXPECT_THAT(std::string(Run().message()), AllOf(HasSubstr("images"), HasSubstr("truncated")));
  WriteFile(root_ + "images", images);
  ASSERT_TRUE(Run().ok());
  spec_.mutable_layer(0)->set_name("other");
  spec_.mutable_weights()->set_init_from("out/small/model.safetensors");
  EXPECT_THAT(std::string(Run().message()), AllOf(HasSubstr("missing: other.weight, other.bias"),
                                                  HasSubstr("not in the model: conv.weight, conv.bias")));
}

}  // namespace
}  // namespace adjoin
