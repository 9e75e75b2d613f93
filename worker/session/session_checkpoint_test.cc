// Jobs that are stopped and go on from their checkpoints: on the same ranks bit for bit, on others as exactly as sums
// allow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/testing/rank_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/file_system.h"
#include "worker/data/idx_test_files.h"
#include "worker/session/session.h"
#include "worker/training/session_activity.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kSamples = 21;
constexpr int64_t kSteps = 72;

// Adam, batch norm, two layers that share weights, noise, dropout, shuffled and cropped samples, five full batches and
// a short one in each pass.
constexpr char kJob[] = R"job(
name: "small" kind: TRAIN ranks: 2 seed: 3
layout { name: "rows" partition: [1, 1, 2, 1] }
layout { name: "channels" partition: [1, 2, 1, 1] }
layout { name: "weights" partition: [1, 2] }
layout { name: "features" partition: [1, 2] }
layout { name: "first" partition: [1, 1] rank: [0] }
layer { name: "conv" input: "image" x: "rows" conv { out_channels: 6 window { kernel: 3 pad_lo: 1 } } }
layer { name: "norm" norm { kind: "batch" } }
layer { name: "relu" activation { fn: "relu" } }
layer { name: "once" conv { out_channels: 6 window { kernel: 3 pad_lo: 1 } } }
layer { name: "twice" weights_of: "once" conv { out_channels: 6 window { kernel: 3 pad_lo: 1 } } }
layer { name: "noise" noise { std: 0.1 } }
layer { name: "drop" dropout { p: 0.2 } }
layer { name: "together" y: "channels" repartition {} }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" x: "features" w: "weights" y: "first" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "set" shuffle: true augment: "shift(1)" augment: "flip(0)"
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "label" idx { path: "labels" } dtype: "int64" } }
train { dataset: "set" batch: 4 steps: 72 optimizer { adam { lr: 0.003 } } }
checkpoint { dir: "ckpt" every_steps: 7 keep_last: 2 }
output_dir: "out"
)job";

struct Ended {
  std::vector<absl::Status> statuses;
  std::vector<SessionResult> results;
  std::string log;

  bool ok() const {
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return false;
    }
    return true;
  }
  std::string Text() const {
    std::string text = log;
    for (const absl::Status& status : statuses) absl::StrAppend(&text, status.ToString(), "\n");
    return text;
  }
};

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    std::mt19937 random(5);
    std::vector<double> images(kSamples * 36), labels;
    for (double& pixel : images) pixel = random() % 256;
    for (int64_t i = 0; i < kSamples; ++i) labels.push_back(random() % 2);
    WriteFile(root_ + "images", IdxBytes(IdxType::kUInt8, {kSamples, 6, 6}, images));
    WriteFile(root_ + "labels", IdxBytes(IdxType::kUInt8, {kSamples}, labels));
    spec_ = Spec(kJob);
  }

  static JobSpec Spec(const std::string& text) {
    const auto parsed = ParseSpec(text, "job");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? parsed->spec : JobSpec();
  }

  // Runs an attempt of the job below root_ + folder. After `stop_at` steps it is aborted, or with `drain` asked to
  // stop.
  Ended Attempt(const JobSpec& spec, const std::string& folder, uint64_t epoch, const std::string& job_id,
                int64_t stop_at = 0, bool drain = false) {
    Ended run;
    const auto plan = Planner::Build(spec, {{"set", kSamples}, {"check", kSamples}}, BuiltinLayerRules());
    if (!plan.ok()) {
      run.statuses = {plan.status()};
      return run;
    }
    std::filesystem::create_directories(root_ + folder);
    std::mutex mutex;
    run.results.resize(spec.ranks());
    SessionActivity activity;
    std::atomic<bool> over{false}, asked{false};
    std::atomic<Transport*> victim{nullptr};
    std::thread killer([&] {
      while (stop_at > 0 && !over) {
        const RankPulse pulse = activity.Now();
        Transport* transport = victim;
        if (transport == nullptr || pulse.phase() != "training" || static_cast<int64_t>(pulse.step()) < stop_at)
          continue;
        asked = true;
        if (!drain) transport->Abort(absl::CancelledError("killed"));
        return;
      }
    });
    run.statuses = RunRanksCollect(
        spec.ranks(), TransportKind::kInMemoryDelayed, epoch,
        [&](Transport& t) -> absl::Status {
          ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory,
                                  MemoryOfRank(TransportKind::kInMemoryDelayed, t.rank(), epoch));
          SessionOptions options;
          options.memory = memory.get();
          options.plan = *plan;
          options.data_root = root_;
          options.output_root = root_ + folder;
          options.transport = &t;
          options.timeout = absl::Seconds(60);
          options.epoch = epoch;
          options.job_id = job_id;
          options.store_id = 9;
          options.log = [&](const std::string& line) {
            const std::lock_guard<std::mutex> lock(mutex);
            absl::StrAppend(&run.log, "rank ", t.rank(), ": ", line, "\n");
          };
          if (drain) options.drain = &asked;
          const bool watched = t.rank() == static_cast<int>(spec.ranks()) - 1;
          if (watched) {
            options.activity = &activity;
            victim = &t;
          }
          const absl::StatusOr<SessionResult> result = RunSession(options);
          if (watched) over = true;
          if (result.ok()) run.results[t.rank()] = *result;
          return result.status();
        },
        absl::Seconds(120));
    killer.join();
    return run;
  }

  // The published losses by step, each step once and in order.
  std::vector<double> Losses(const std::string& folder) {
    std::vector<double> losses;
    std::ifstream in(root_ + folder + "/out/metrics.jsonl");
    for (std::string text; std::getline(in, text);) {
      const nlohmann::json line = nlohmann::json::parse(text);
      if (line["type"] != "step") continue;
      losses.push_back(line["loss"]);
      EXPECT_EQ(line["step"], losses.size());
    }
    return losses;
  }

  std::string Model(const std::string& folder) { return ReadFile(root_ + folder + "/out/model.safetensors"); }

  std::vector<int64_t> Checkpoints(const std::string& folder) {
    DiskFiles files(root_ + folder);
    std::vector<int64_t> steps;
    const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files, "ckpt");
    if (!names.ok()) return {-1};
    for (const CheckpointName& name : *names) steps.push_back(name.step);
    return steps;
  }

  void KillAnywhere(size_t most_kept);

  std::string root_;
  JobSpec spec_;
};

// Runs the job whole, and killed three times for each of three seeds.
void CheckpointTest::KillAnywhere(size_t most_kept) {
  const Ended whole = Attempt(spec_, "whole", 1, "job-1");
  ASSERT_TRUE(whole.ok()) << whole.Text();
  EXPECT_FALSE(whole.results[0].resumed_step.has_value());
  EXPECT_EQ(whole.results[0].final.checkpoint_step(), static_cast<uint64_t>(kSteps));
  ASSERT_EQ(Losses("whole").size(), static_cast<size_t>(kSteps));
  // The checkpoints between depend on how fast the disk is.
  EXPECT_EQ(Checkpoints("whole").front(), kSteps);
  EXPECT_LE(Checkpoints("whole").size(), most_kept) << "keep_last";
  int resumed = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 random(seed);
    const std::string folder = absl::StrCat("killed-", seed);
    int64_t reached = 0;
    uint64_t epoch = 1;
    for (int kill = 0; kill < 3; ++kill) {
      reached += 1 + static_cast<int64_t>(random() % 22);
      const Ended run = Attempt(spec_, folder, epoch++, "job-1", reached);
      ASSERT_FALSE(run.ok()) << "it should have been stopped after step " << reached << ", seed " << seed << run.log;
    }
    const Ended last = Attempt(spec_, folder, epoch, "job-1");
    ASSERT_TRUE(last.ok()) << last.Text();
    if (last.results[1].resumed_step.has_value()) ++resumed;
    EXPECT_EQ(last.results[0].final.resumed_step(), static_cast<uint64_t>(last.results[0].resumed_step.value_or(0)));
    EXPECT_EQ(Losses(folder), Losses("whole")) << "seed " << seed;
    EXPECT_EQ(Model(folder), Model("whole")) << "seed " << seed;
    EXPECT_EQ(Checkpoints(folder).front(), kSteps);
    EXPECT_LE(Checkpoints(folder).size(), most_kept) << "what attempts before have left is gone";
  }
  EXPECT_GT(resumed, 0);
}

TEST_F(CheckpointTest, AJobThatIsKilledAnywhereResumesBitForBit) { KillAnywhere(/*most_kept=*/2); }

// Random crops in micro-batches, a schedule, clipping, and validations that are judged.
TEST_F(CheckpointTest, AJobThatValidatesResumesBitForBit) {
  Dataset* set = spec_.mutable_dataset(0);
  *spec_.add_dataset() = *set;
  spec_.mutable_dataset(1)->set_name("check");
  spec_.mutable_dataset(1)->set_limit(6);
  for (int dim = 0; dim < 2; ++dim) set->mutable_blocks()->add_size(4);
  // The check's samples are blocks, too, the same ones each time.
  *spec_.mutable_dataset(1)->mutable_blocks() = set->blocks();
  set->mutable_blocks()->set_per_epoch(kSamples);
  spec_.mutable_dataset(1)->mutable_blocks()->set_per_epoch(9);
  Train* train = spec_.mutable_train();
  train->set_microbatches(2);
  train->set_clip_norm(0.5);
  Phase* phase = train->add_schedule();
  phase->set_shape("cosine");
  phase->set_steps(50);
  phase->set_from(1);
  phase->set_to(0.1);
  train->set_validate_on("check");
  train->set_validate_every(5);
  train->mutable_early_stop()->set_patience(1000);
  spec_.mutable_checkpoint()->set_keep_best("loss");
  KillAnywhere(/*most_kept=*/3);
}

TEST_F(CheckpointTest, ADrainLosesNoStep) {
  ASSERT_TRUE(Attempt(spec_, "whole", 1, "job-1").ok());
  const Ended drained = Attempt(spec_, "drained", 1, "job-1", 10, /*drain=*/true);
  ASSERT_TRUE(drained.ok()) << drained.Text();
  const int64_t step = drained.results[0].drained_step.value_or(0);
  ASSERT_GE(step, 10) << drained.log;
  EXPECT_EQ(Checkpoints("drained").at(0), step);
  const Ended next = Attempt(spec_, "drained", 2, "job-1");
  ASSERT_TRUE(next.ok()) << next.Text();
  EXPECT_EQ(next.results[0].resumed_step, step);
  EXPECT_EQ(Losses("drained"), Losses("whole"));
  EXPECT_EQ(Model("drained"), Model("whole"));
}

void SetPartition(JobSpec& spec, const std::string& name, const std::vector<uint32_t>& partition,
                  const std::vector<uint32_t>& ranks) {
  for (LayoutSpec& layout : *spec.mutable_layout()) {
    if (layout.name() != name) continue;
    layout.mutable_partition()->Assign(partition.begin(), partition.end());
    layout.mutable_rank()->Assign(ranks.begin(), ranks.end());
  }
}

JobSpec Cut(JobSpec spec, uint32_t ranks, const std::vector<uint32_t>& rows, const std::vector<uint32_t>& weights) {
  spec.set_ranks(ranks);
  SetPartition(spec, "rows", rows, {});
  SetPartition(spec, "channels", {1, weights[1], 1, 1}, {});
  SetPartition(spec, "weights", weights, {});
  SetPartition(spec, "features", {1, weights[1]}, {});
  return spec;
}

// The largest difference, relative to the larger of the two numbers.
double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), std::abs(b[i])));
  }
  return most;
}

TEST_F(CheckpointTest, OtherRanksAndOtherCutsResume) {
  spec_.mutable_precision()->set_compute("float64");
  struct Change {
    std::string name;
    JobSpec from, to;
  };
  const std::vector<Change> changes = {
      {"4 to 2", Cut(spec_, 4, {1, 1, 2, 2}, {1, 4}), Cut(spec_, 2, {1, 1, 1, 2}, {1, 2})},
      {"2 to 6", Cut(spec_, 2, {1, 1, 2, 1}, {1, 2}), Cut(spec_, 6, {1, 1, 3, 2}, {1, 6})},
      {"batch to rows", Cut(spec_, 3, {3, 1, 1, 1}, {1, 3}), Cut(spec_, 3, {1, 1, 3, 1}, {1, 1})},
      {"2 to 1", Cut(spec_, 2, {1, 1, 2, 1}, {1, 2}), Cut(spec_, 1, {1, 1, 1, 1}, {1, 1})},
  };
  const Ended serial = Attempt(Cut(spec_, 1, {1, 1, 1, 1}, {1, 1}), "serial", 1, "job-1");
  ASSERT_TRUE(serial.ok()) << serial.Text();
  for (const Change& change : changes) {
    JobSpec from = change.from;
    from.mutable_train()->set_steps(33);
    const Ended before = Attempt(from, change.name, 1, "job-1");
    ASSERT_TRUE(before.ok()) << change.name << "\n" << before.Text();
    JobSpec to = change.to;
    to.mutable_checkpoint()->set_resume_from("ckpt");
    to.mutable_checkpoint()->set_dir("ckpt2");
    const Ended after = Attempt(to, change.name, 2, "job-2");
    ASSERT_TRUE(after.ok()) << change.name << "\n" << after.Text();
    EXPECT_EQ(after.results[0].resumed_step, 33) << change.name;
    EXPECT_LE(Difference(Losses(change.name), Losses("serial")), 1e-10) << change.name;
  }
}

// All that an optimizer keeps is in the checkpoint, the number of its steps as well.
TEST_F(CheckpointTest, EveryOptimizerResumesOnOtherRanks) {
  spec_.mutable_precision()->set_compute("float64");
  for (const char* text : {"sgd { lr: 0.01 momentum: 0.9 dampening: 0.2 }", "adam { lr: 0.003 amsgrad: true }",
                           "adam { lr: 0.003 amsgrad: true decoupled: true weight_decay: 0.1 }",
                           "rmsprop { lr: 0.001 }", "rmsprop { lr: 0.001 momentum: 0.5 centered: true eps: 0.01 }",
                           "adagrad { lr: 0.01 lr_decay: 0.1 initial: 0.1 }"}) {
    *spec_.mutable_train()->mutable_optimizer() =
        Spec(absl::StrCat("train { optimizer { ", text, " } }")).train().optimizer();
    const std::string name = std::string(text).substr(0, 40);
    const Ended serial = Attempt(Cut(spec_, 1, {1, 1, 1, 1}, {1, 1}), "serial " + name, 1, "job-1");
    ASSERT_TRUE(serial.ok()) << text << "\n" << serial.Text();
    JobSpec from = Cut(spec_, 2, {1, 1, 2, 1}, {1, 2});
    from.mutable_train()->set_steps(33);
    ASSERT_TRUE(Attempt(from, name, 1, "job-1").ok()) << text;
    JobSpec to = Cut(spec_, 6, {1, 1, 3, 2}, {1, 6});
    to.mutable_checkpoint()->set_resume_from("ckpt");
    to.mutable_checkpoint()->set_dir("ckpt2");
    const Ended after = Attempt(to, name, 2, "job-2");
    ASSERT_TRUE(after.ok()) << text << "\n" << after.Text();
    EXPECT_EQ(after.results[0].resumed_step, 33) << text;
    EXPECT_LE(Difference(Losses(name), Losses("serial " + name)), 1e-10) << text;
  }
}

TEST_F(CheckpointTest, RefusesACheckpointAtAnotherPositionInTheData) {
  JobSpec first = spec_;
  first.mutable_train()->set_steps(14);
  ASSERT_TRUE(Attempt(first, "other", 1, "job-1").ok());
  JobSpec next = spec_;
  next.mutable_checkpoint()->set_resume_from("ckpt");
  next.mutable_checkpoint()->set_dir("ckpt2");
  next.mutable_train()->set_batch(7);
  const Ended refused = Attempt(next, "other", 2, "job-2");
  EXPECT_THAT(refused.Text(), HasSubstr("came after 2 epochs and 2 steps; in this job, with 3 steps an epoch"));
  // With another seed it resumes and logs that the order of the samples differs; with fewer steps none is left.
  next = spec_;
  next.mutable_checkpoint()->set_resume_from("ckpt");
  next.mutable_checkpoint()->set_dir("ckpt2");
  next.set_seed(4);
  next.mutable_train()->set_steps(10);
  const Ended done = Attempt(next, "other", 3, "job-3");
  ASSERT_TRUE(done.ok()) << done.Text();
  EXPECT_THAT(done.log, AllOf(HasSubstr("written with seed 3"), HasSubstr("no step is left to do")));
  EXPECT_GT(done.results[0].final.loss(), 0) << "of the last step that was done";
}

TEST_F(CheckpointTest, SkipsAndNamesADamagedCheckpoint) {
  ASSERT_TRUE(Attempt(spec_, "whole", 1, "job-1").ok());
  // Each attempt ends with a checkpoint.
  JobSpec first = spec_;
  first.mutable_train()->set_steps(28);
  ASSERT_TRUE(Attempt(first, "damaged", 1, "job-1").ok());
  first.mutable_train()->set_steps(35);
  ASSERT_TRUE(Attempt(first, "damaged", 2, "job-1").ok());
  DiskFiles files(root_ + "damaged");
  const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files, "ckpt");
  ASSERT_TRUE(names.ok() && !names->empty());
  const CheckpointName newest = names->front();
  ASSERT_EQ(newest.step, 35);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, "ckpt", newest);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const Manifest::Piece& piece = manifest->tensors.at("exp_avg_sq/fc.weight").pieces.at(1);
  const std::string file = manifest->files[piece.file].name;
  const std::string path = absl::StrCat(root_, "damaged/ckpt/", newest.ToString(), "/", file);
  std::string content = ReadFile(path);
  content[static_cast<size_t>(piece.offset) + 3] ^= 4;
  WriteFile(path, content);
  const Ended run = Attempt(spec_, "damaged", 3, "job-1");
  ASSERT_TRUE(run.ok()) << run.Text();
  EXPECT_EQ(run.results[0].resumed_step, 28);
  EXPECT_THAT(run.log, AllOf(HasSubstr(absl::StrCat("checkpoint ckpt/", newest.ToString(), " is skipped: ")),
                             HasSubstr(absl::StrCat(file, ": damaged")), HasSubstr("damaged is exp_avg_sq/fc.weight"),
                             HasSubstr("resumed from step 28")));
  EXPECT_EQ(Losses("damaged"), Losses("whole"));
}

TEST_F(CheckpointTest, TakesAnotherJobsCheckpointsOnlyWhereAskedFor) {
  JobSpec first = spec_;
  first.mutable_train()->set_steps(14);
  ASSERT_TRUE(Attempt(first, "foreign", 1, "job-1").ok());
  Ended run = Attempt(first, "foreign", 2, "job-2");
  ASSERT_TRUE(run.ok()) << run.Text();
  EXPECT_FALSE(run.results[0].resumed_step.has_value());
  EXPECT_THAT(run.log, HasSubstr("ckpt holds checkpoints of other jobs"));
  EXPECT_EQ(Checkpoints("foreign"), (std::vector<int64_t>{14, 14, 7, 7})) << "each job keeps its own";

  JobSpec other = spec_;
  other.mutable_checkpoint()->set_resume_from("ckpt");
  other.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(0.01);
  other.mutable_train()->mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  run = Attempt(other, "foreign", 3, "job-3");
  ASSERT_FALSE(run.ok());
  for (const absl::Status& status : run.statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("does not fit the job"), HasSubstr("missing in it: momentum_buffer/conv.weight"),
                      HasSubstr("not in the job: exp_avg/conv.bias")));
  }
  other = spec_;
  other.mutable_checkpoint()->set_resume_from("nowhere");
  run = Attempt(other, "foreign", 4, "job-4");
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.Text(), HasSubstr("no valid checkpoint in nowhere: none at all"));
}

TEST_F(CheckpointTest, ItsWeightsAloneBeginAnotherJobAsItsModelDoes) {
  JobSpec first = spec_;
  first.mutable_train()->set_steps(14);
  ASSERT_TRUE(Attempt(first, "base", 1, "job-1").ok());
  DiskFiles files(root_ + "base");
  const absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files, "ckpt");
  ASSERT_TRUE(names.ok() && !names->empty());
  const std::string checkpoint = PathOf("ckpt", names->front().ToString());
  // On one rank, with another optimizer.
  JobSpec tuned = Spec(absl::StrReplaceAll(kJob, {{"ranks: 2", "ranks: 1"},
                                                  {"partition: [1, 1, 2, 1]", "partition: [1, 1, 1, 1]"},
                                                  {"partition: [1, 2, 1, 1]", "partition: [1, 1, 1, 1]"},
                                                  {"partition: [1, 2]", "partition: [1, 1]"},
                                                  {"adam { lr: 0.003 }", "sgd { lr: 0.01 }"},
                                                  {"checkpoint { dir: \"ckpt\" every_steps: 7 keep_last: 2 }", ""},
                                                  {"steps: 72", "steps: 5"}}));
  std::vector<std::string> models;
  uint64_t epoch = 2;
  for (const std::string& from : {std::string("out/model.safetensors"), checkpoint}) {
    tuned.mutable_weights()->set_from_output(from);
    tuned.set_output_dir(absl::StrCat("tuned-", epoch));
    const Ended run = Attempt(tuned, "base", epoch, absl::StrCat("job-", epoch));
    ASSERT_TRUE(run.ok()) << run.Text();
    EXPECT_THAT(run.log, HasSubstr(absl::StrCat("weights from '", from, "'")));
    EXPECT_FALSE(run.results[0].resumed_step.has_value());
    models.push_back(ReadFile(absl::StrCat(root_, "base/", tuned.output_dir(), "/model.safetensors")));
    ++epoch;
  }
  EXPECT_FALSE(models[0].empty());
  EXPECT_EQ(models[0], models[1]);

  const absl::StatusOr<Manifest> manifest = ReadManifest(files, "ckpt", names->front());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const Manifest::Piece& piece = manifest->tensors.at("fc.weight").pieces.at(1);
  const std::string path = absl::StrCat(root_, "base/", checkpoint, "/", manifest->files[piece.file].name);
  std::string content = ReadFile(path);
  content[static_cast<size_t>(piece.offset) + 3] ^= 4;
  WriteFile(path, content);
  EXPECT_THAT(Attempt(tuned, "base", epoch, "job-8").Text(), HasSubstr("the checksum of fc.weight does not fit"));
  std::filesystem::remove_all(absl::StrCat(root_, "base/", checkpoint));
  EXPECT_THAT(Attempt(tuned, "base", epoch + 1, "job-9").Text(),
              HasSubstr(absl::StrCat("'", checkpoint, "', whose weights this job begins with, is not there")));
}

}  // namespace
}  // namespace adjoin
