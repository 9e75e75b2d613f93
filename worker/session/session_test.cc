#include "worker/session/session.h"
#include "primitives/testing/rank_memory.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/data/idx_test_files.h"
#include "worker/model/safetensors.h"
#include "worker/session/attempt_output.h"
#include "worker/training/session_activity.h"

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

  // `adapt` changes the options of each rank.
  using Adapt = std::function<void(int rank, SessionOptions& options)>;

  absl::Status Run(const Adapt& adapt = nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const RankFunction run, Prepared(adapt));
    return RunRanks(spec_.ranks(), TransportKind::kInMemoryDelayed, 4, run);
  }

  // Every rank's own status.
  std::vector<absl::Status> RunCollect(const Adapt& adapt = nullptr) {
    const absl::StatusOr<RankFunction> run = Prepared(adapt);
    if (!run.ok()) return {run.status()};
    return RunRanksCollect(spec_.ranks(), TransportKind::kInMemoryDelayed, 4, *run);
  }

  absl::StatusOr<RankFunction> Prepared(const Adapt& adapt) {
    ADJOIN_ASSIGN_OR_RETURN(plan_, Planner::Build(spec_, {{"set", kSamples}}, BuiltinLayerRules()));
    results_.assign(spec_.ranks(), {});
    progress_.assign(spec_.ranks(), {});
    return RankFunction([this, adapt](Transport& t) -> absl::Status {
      ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory,
                              MemoryOfRank(TransportKind::kInMemoryDelayed, t.rank(), 4));
      SessionOptions options;
      options.memory = memory.get();
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
      if (adapt) adapt(t.rank(), options);
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

// All ranks report the same, whichever rank has the value.
void ExpectHopeless(const std::vector<absl::Status>& statuses, const std::string& text) {
  ASSERT_EQ(statuses.size(), 2u);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(status, statuses[0]);
  }
}

TEST_F(SessionTest, ALossThatIsNotFiniteEndsTheJob) {
  spec_.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e30);
  const std::vector<absl::Status> statuses = RunCollect();
  ExpectHopeless(statuses, "; the first value that is not finite is in ");
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("step "), HasSubstr("the loss is"), HasSubstr("of layer \""),
                    HasSubstr("; training cannot go on (a smaller learning rate may help)")));
}

// fc is on rank 1 only, the rows of conv are on both, the row of the planted pixel is on rank 1.
TEST_F(SessionTest, NamesTheFirstValueThatIsNotFinite) {
  // Weights of 0.1, but for the last one of parameter `name`.
  const auto plant = [&](const std::string& name, float value) {
    const std::vector<SafetensorsEntry> entries = {{"conv.weight", DType::kFloat32, {2, 1, 3, 3}},
                                                   {"conv.bias", DType::kFloat32, {2}},
                                                   {"fc.weight", DType::kFloat32, {2, 72}},
                                                   {"fc.bias", DType::kFloat32, {2}}};
    auto writer = SafetensorsWriter::Create(root_ + "planted.safetensors", entries);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : entries) {
      std::vector<float> values(entry.Bytes() / sizeof(float), 0.1f);
      if (entry.name == name) values.back() = value;
      ASSERT_TRUE((*writer)->Append(values.data(), entry.Bytes()).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  };
  spec_.mutable_weights()->set_init_from("planted.safetensors");
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  plant("fc.bias", kNan);
  ExpectHopeless(RunCollect(),
                 "step 1: the loss is nan; the first value that is not finite is in parameter \"fc.bias\" of"
                 " layer \"fc\"; training cannot go on (a smaller");
  plant("fc.weight", 3e38f);
  spec_.mutable_dataset(0)->mutable_field(0)->set_scale(10);
  ExpectHopeless(RunCollect(), "the first value that is not finite is in the output of layer \"fc\"; training cannot");

  spec_.clear_weights();
  std::vector<double> images(kSamples * 36, 0.5);
  for (int64_t sample = 0; sample < kSamples; ++sample) images[sample * 36 + 35] = kNan;
  WriteFile(root_ + "images", IdxBytes(IdxType::kFloat32, {kSamples, 6, 6}, images));
  const std::vector<absl::Status> data = RunCollect();
  ExpectHopeless(data,
                 "the first value that is not finite is in field \"image\" of the data, an input of layer \"conv\";"
                 " training cannot go on");
  EXPECT_EQ(std::string(data[0].message()).find("learning rate"), std::string::npos) << "it would not help";
}

// Rank 1 alone is asked, in mid-training.
TEST_F(SessionTest, ADrainStopsAllRanksAfterTheSameStep) {
  spec_.mutable_train()->set_epochs(100000);
  std::atomic<bool> asked{false};
  SessionActivity activity;
  bool trained = false;
  std::thread daemon([&] {
    const Deadline deadline = Deadline::After(absl::Seconds(30));
    while (!trained && !deadline.Expired()) {
      const RankPulse pulse = activity.Now();
      trained = pulse.phase() == "training" && pulse.step() >= 3;
    }
    asked = true;
  });
  const absl::Status status = Run([&](int rank, SessionOptions& options) {
    options.epoch = 2;
    if (rank != 1) return;
    options.activity = &activity;
    options.drain = &asked;
  });
  daemon.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(trained);
  const int64_t step = results_[0].drained_step.value_or(0);
  EXPECT_GE(step, 3);
  for (const SessionResult& result : results_) {
    EXPECT_EQ(result.drained_step, step);
    EXPECT_EQ(result.final.step(), step);
    int64_t steps = 0;
    for (const auto& [program, count] : result.steps) steps += count;
    EXPECT_EQ(steps, step);
    const int rank = static_cast<int>(&result - results_.data());
    EXPECT_EQ(result.bytes_sent.at("train"), result.steps.at("train") * plan_.program(0).bytes_per_step(rank));
    EXPECT_TRUE(result.artifacts.empty());
  }
  EXPECT_GT(activity.Now().step_seconds(), 0);
  EXPECT_TRUE(Metrics().empty()) << "nothing is published";
}

// The last step of training is kept; the evaluation ends early.
TEST_F(SessionTest, ADrainEndsTheEvaluation) {
  spec_.mutable_train()->set_steps(1);
  const std::atomic<bool> asked{true};
  const auto ask = [&](int rank, SessionOptions& options) {
    options.epoch = 3;
    if (rank == 0) options.drain = &asked;
  };
  absl::Status status = Run(ask);
  ASSERT_TRUE(status.ok()) << status;
  for (const SessionResult& result : results_) EXPECT_EQ(result.drained_step, 1);
  EXPECT_EQ(results_[0].final.phase(), "evaluating");
  EXPECT_TRUE(Metrics().empty()) << "nothing is published";

  spec_.clear_evaluate();
  status = Run(ask);
  ASSERT_TRUE(status.ok()) << status;
  for (const SessionResult& result : results_) EXPECT_FALSE(result.drained_step.has_value()) << "all was done";
  EXPECT_EQ(Metrics().size(), 2u);
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

// Rank 1 begins to train only once rank 0 reports that it waits.
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
