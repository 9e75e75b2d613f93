// Training as users know it, cut in all the ways of examples/mnist, equals a plain serial program: Adam and SGD,
// schedules, clipping, micro-batches, frozen layers, validation. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/optim.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

#include "tests/e2e/mnist_jobs.h"

namespace adjoin {
namespace {

constexpr int64_t kSteps = 18;  // two epochs of 7 batches of 64 and one of 53, and two steps more
constexpr int64_t kWarmUp = 4;

void AddPhase(const std::string& shape, uint64_t steps, double from, double to, Train& train) {
  Phase& phase = *train.add_schedule();
  phase.set_shape(shape);
  phase.set_steps(steps);
  phase.set_from(from);
  phase.set_to(to);
}

// Linear to 1 over kWarmUp steps, a cosine to 0.1 over ten, then 0.1.
double WarmUpAndCosine(int64_t step) {
  if (step < kWarmUp) return 0.25 + 0.75 * static_cast<double>(step) / kWarmUp;
  if (step >= kWarmUp + 10) return 0.1;
  return 0.1 + 0.9 * (1 + std::cos(M_PI * static_cast<double>(step - kWarmUp) / 10)) / 2;
}

Layer& LayerOf(JobSpec& spec, const std::string& name) {
  for (Layer& layer : *spec.mutable_layer()) {
    if (layer.name() == name) return layer;
  }
  throw std::runtime_error("no layer " + name);
}

// On 1, 2 and 4 ranks: lenet5-sync-sgd is cut in two instead of four.
JobSpec JobOf(const std::string& name) {
  JobSpec spec = ExampleJob(name).value();
  if (name != "lenet5-sync-sgd") return spec;
  spec.set_ranks(2);
  for (LayoutSpec& layout : *spec.mutable_layout()) layout.set_partition(0, 2);
  return spec;
}

void Validate(uint64_t every, JobSpec& spec) {
  spec.mutable_train()->set_validate_on("test");
  spec.mutable_train()->set_validate_every(every);
}

class TrainingTest : public testing::TestWithParam<const char*> {};

TEST_P(TrainingTest, AdamWithScheduleClippingMicroBatchesAFrozenLayerAndValidation) {
  JobSpec spec = JobOf(GetParam());
  ShortenTo(kSteps, "float64", spec);
  Train& train = *spec.mutable_train();
  Adam& adam = *train.mutable_optimizer()->mutable_adam();
  adam.set_lr(0.002);
  adam.set_beta2(0.99);
  adam.set_weight_decay(0.01);
  adam.set_decoupled(true);
  AddPhase("linear", kWarmUp, 0.25, 1, train);
  AddPhase("cosine", 10, 1, 0.1, train);
  train.set_clip_norm(0.7);
  train.set_microbatches(4);  // 16 samples each; the last batch of an epoch is three of them and one of 5
  LayerOf(spec, "conv2").set_frozen(true);
  LayerOf(spec, "relu1").set_recompute(true);
  LayerOf(spec, "pool1").set_recompute(true);
  Validate(8, spec);

  SerialOptions options = {.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = kSteps};
  options.optimizer = [](std::vector<torch::Tensor> trained) {
    return std::make_unique<torch::optim::AdamW>(
        std::move(trained), torch::optim::AdamWOptions(0.002).betas(std::make_tuple(0.9, 0.99)).weight_decay(0.01));
  };
  options.lr_of_step = [](int64_t step) { return 0.002 * WarmUpAndCosine(step); };
  options.clip_norm = 0.7;
  options.frozen = {"conv2.weight", "conv2.bias"};
  options.validate_every = 8;
  static const NamedTensors initial = InitialWeights(kSeedFloat64, torch::kFloat64);
  static const SerialRun truth = TrainSerially(options, initial);
  const auto job = RunOnThreads(spec, MakeFolders("adam", initial), TransportKind::kInMemoryDelayed, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Differences(*job, truth, 1e-10), "");
  EXPECT_EQ(job->validation_steps, (std::vector<int64_t>{8, 16, 18}));
  ASSERT_EQ(job->rates.size(), static_cast<size_t>(kSteps));
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(job->rates[step], 0.002 * WarmUpAndCosine(step), 1e-15) << "step " << step;
  }
  EXPECT_TRUE(torch::equal(job->weights.at("conv2.weight"), initial.at("conv2.weight")));
  // Both sides of the limit are met.
  const auto [least, most] = std::minmax_element(truth.norms.begin(), truth.norms.end());
  EXPECT_LT(*least, 0.7);
  EXPECT_GT(*most, 0.7);
}

TEST_P(TrainingTest, SgdWithDampeningAndSteps) {
  JobSpec spec = JobOf(GetParam());
  ShortenTo(10, "float64", spec);
  Train& train = *spec.mutable_train();
  train.mutable_optimizer()->mutable_sgd()->set_dampening(0.3);
  train.mutable_optimizer()->mutable_sgd()->set_weight_decay(0.05);
  AddPhase("step", 3, 1, 0.5, train);
  AddPhase("step", 3, 0.5, 0.25, train);
  train.set_microbatches(2);
  SerialOptions options = {.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = 10};
  options.optimizer = [](std::vector<torch::Tensor> trained) {
    return std::make_unique<torch::optim::SGD>(
        std::move(trained), torch::optim::SGDOptions(0.01).momentum(0.9).dampening(0.3).weight_decay(0.05));
  };
  options.lr_of_step = [](int64_t step) { return 0.01 * std::pow(0.5, std::min<int64_t>(2, step / 3)); };
  static const NamedTensors initial = InitialWeights(2, torch::kFloat64);
  static const SerialRun truth = TrainSerially(options, initial);
  const auto job = RunOnThreads(spec, MakeFolders("sgd", initial), TransportKind::kInMemoryDelayed, 2);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Differences(*job, truth, 1e-10), "");
}

INSTANTIATE_TEST_SUITE_P(Jobs, TrainingTest, testing::Values("lenet5-serial", "lenet5-sync-sgd", "lenet5-spatial"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// bfloat16 activations, float32 weights. On one rank the kernels are those of the serial program; on more, sums are
// rounded elsewhere, each to 8 bits: 1e-2 is what 12 steps make of it, where float32 would be 1e-4 away.
TEST(PrecisionTest, BFloat16WithFloat32Weights) {
  const NamedTensors initial = InitialWeights(kSeedFloat32, torch::kFloat32);
  SerialOptions options = {.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = 12, .lr = 0.002};
  options.bfloat16 = true;
  const SerialRun truth = TrainSerially(options, initial);
  for (const char* name : {"lenet5-serial", "lenet5-spatial"}) {
    JobSpec spec = ExampleJob(name).value();
    ShortenTo(12, "bfloat16", spec);
    spec.mutable_precision()->set_params("float32");
    spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(0.002);
    const Plan plan = PlanOf(spec).value();
    for (const ParameterPlan& parameter : plan.parameter()) EXPECT_EQ(parameter.home().dtype(), "float32");
    for (const ValuePlan& value : plan.program(0).value()) {
      EXPECT_EQ(value.layout().dtype(), value.field() == "label" ? "int64" : "bfloat16") << value.name();
    }
    const auto job = RunOnThreads(spec, MakeFolders(name, initial), TransportKind::kInMemoryDelayed, 6);
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_EQ(job->losses.size(), truth.losses.size());
    const double tolerance = spec.ranks() == 1 ? 1e-5 : 1e-2;
    for (size_t i = 0; i < truth.losses.size(); ++i) {
      EXPECT_NEAR(job->losses[i], truth.losses[i], tolerance * truth.losses[i]) << name << ", step " << i + 1;
    }
    for (const auto& [parameter, weight] : truth.weights) {
      const torch::Tensor& actual = job->weights.at(parameter);
      EXPECT_EQ(actual.scalar_type(), torch::kFloat32) << parameter;
      EXPECT_LT((actual - weight).abs().max().item<double>(), tolerance * weight.abs().max().item<double>())
          << parameter;
    }
  }
}

// A power of two is taken out again to the bit: of the loss, of the norm that is clipped, of the weights.
TEST(LossScaleTest, ChangesNothingWhereAllIsFinite) {
  const NamedTensors initial = InitialWeights(kSeedFloat32, torch::kFloat32);
  for (const char* name : {"lenet5-serial", "lenet5-spatial"}) {
    JobSpec spec = JobOf(name);
    ShortenTo(10, "float32", spec);
    spec.mutable_train()->set_clip_norm(0.7);
    spec.mutable_train()->set_microbatches(2);
    const auto without =
        RunOnThreads(spec, MakeFolders(absl::StrCat(name, "-1"), initial), TransportKind::kInMemoryDelayed, 7);
    ASSERT_TRUE(without.ok()) << without.status();
    spec.mutable_precision()->set_loss_scale(4096);
    const auto with =
        RunOnThreads(spec, MakeFolders(absl::StrCat(name, "-4096"), initial), TransportKind::kInMemoryDelayed, 8);
    ASSERT_TRUE(with.ok()) << with.status();
    EXPECT_EQ(with->losses, without->losses) << name;
    EXPECT_EQ(with->norms, without->norms) << name;
    EXPECT_EQ(with->skipped, 0) << name;
    for (const auto& [weight, value] : without->weights) EXPECT_TRUE(torch::equal(with->weights.at(weight), value));
    // 1000 is no power of two: each gradient is rounded once more.
    spec.mutable_precision()->set_loss_scale(1000);
    const auto rounded =
        RunOnThreads(spec, MakeFolders(absl::StrCat(name, "-1000"), initial), TransportKind::kInMemoryDelayed, 9);
    ASSERT_TRUE(rounded.ok()) << rounded.status();
    for (size_t i = 0; i < without->losses.size(); ++i) EXPECT_NEAR(rounded->losses[i], without->losses[i], 1e-3);
  }
}

// The loss is finite, and its scaled gradients are not: no rank steps.
TEST(LossScaleTest, AStepWhoseGradientsOverflowIsSkipped) {
  const NamedTensors initial = InitialWeights(kSeedFloat32, torch::kFloat32);
  for (const char* name : {"lenet5-serial", "lenet5-spatial"}) {
    JobSpec spec = JobOf(name);
    ShortenTo(5, "float32", spec);
    spec.mutable_loss(0)->set_weight(1e25);
    spec.mutable_precision()->set_loss_scale(1e19);
    const auto job =
        RunOnThreads(spec, MakeFolders(absl::StrCat(name, "-skips"), initial), TransportKind::kInMemoryDelayed, 7);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->skipped, 5) << name;
    EXPECT_EQ(job->losses.size(), 5u);
    for (const double loss : job->losses) EXPECT_GT(loss, 1e24);
    for (const double norm : job->norms) EXPECT_TRUE(std::isnan(norm)) << norm;
    for (const auto& [weight, value] : initial) EXPECT_TRUE(torch::equal(job->weights.at(weight), value)) << weight;
  }
}

// As many steps in a row as are skipped end the job. Without a factor the first one does, where the job clips.
TEST(LossScaleTest, AHundredSkippedStepsEndTheJob) {
  const NamedTensors initial = InitialWeights(kSeedFloat32, torch::kFloat32);
  JobSpec spec = JobOf("lenet5-sync-sgd");
  ShortenTo(120, "float32", spec);
  spec.mutable_train()->set_batch(4);
  spec.mutable_loss(0)->set_weight(1e25);
  spec.mutable_precision()->set_loss_scale(1e19);
  const auto job = RunOnThreads(spec, MakeFolders("hundred", initial), TransportKind::kInMemoryDelayed, 7);
  ASSERT_EQ(job.status().code(), absl::StatusCode::kOutOfRange) << job.status();
  EXPECT_TRUE(absl::StrContains(job.status().message(), "step 100: the norm of the gradients is "));
  EXPECT_TRUE(absl::StrContains(job.status().message(), "as in the 99 steps before it"));
  EXPECT_TRUE(absl::StrContains(job.status().message(), "a precision.loss_scale below 1e+19 or a smaller learning"));
}

// Adds a layer right after `name`, whose output it takes.
Layer& AddAfter(const std::string& name, const std::string& added, JobSpec& spec) {
  spec.add_layer()->set_name(added);
  int at = spec.layer_size() - 1;
  for (; at > 0 && spec.layer(at - 1).name() != name; --at) spec.mutable_layer()->SwapElements(at, at - 1);
  return *spec.mutable_layer(at);
}

// Channels, elements and noise, each drawn where the layout of the job cuts the tensor; 501 samples in batches of 64.
// All stand before the layers that not all of the jobs have: a layer's numbers depend on its place in the job.
TEST(DropoutTest, TrainingIsTheSameOnAnyRanksAndForAnyMicroBatches) {
  const NamedTensors initial = InitialWeights(3, torch::kFloat64);
  const std::vector<std::pair<std::string, uint32_t>> runs = {
      {"lenet5-serial", 1},  {"lenet5-serial", 2},   {"lenet5-serial", 4}, {"lenet5-spatial", 1},
      {"lenet5-spatial", 4}, {"lenet5-sync-sgd", 2}, {"lenet5-hybrid", 1}};
  std::vector<double> losses;
  for (const auto& [name, micro] : runs) {
    JobSpec spec = JobOf(name);
    ShortenTo(10, "float64", spec);
    spec.mutable_train()->set_microbatches(micro);
    Dropout& channels = *AddAfter("pool1", "channels", spec).mutable_dropout();
    channels.set_p(0.2);
    channels.set_channel(true);
    AddAfter("relu1", "noise", spec).mutable_noise()->set_std(0.1);
    AddAfter("relu2", "drop", spec).mutable_dropout()->set_p(0.3);
    const std::string run = name + "-" + std::to_string(micro);
    const auto job = RunOnThreads(spec, MakeFolders("dropout-" + run, initial), TransportKind::kInMemoryDelayed, 5);
    ASSERT_TRUE(job.ok()) << run << ": " << job.status();
    if (losses.empty()) losses = job->losses;
    ASSERT_EQ(job->losses.size(), losses.size()) << run;
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(job->losses[i], losses[i], 1e-10) << run << ", step " << i;
  }
}

// Bit for bit the same training, with and without.
TEST(ValidationTest, DoesNotDisturbTraining) {
  const NamedTensors initial = InitialWeights(3, torch::kFloat64);
  JobSpec spec = ExampleJob("lenet5-spatial").value();
  ShortenTo(9, "float64", spec);
  const auto without = RunOnThreads(spec, MakeFolders("without", initial), TransportKind::kInMemoryDelayed, 3);
  ASSERT_TRUE(without.ok()) << without.status();
  Validate(2, spec);
  const auto with = RunOnThreads(spec, MakeFolders("with", initial), TransportKind::kInMemoryDelayed, 4);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->losses, without->losses);
  EXPECT_EQ(with->validation_steps, (std::vector<int64_t>{2, 4, 6, 8, 9}));
  for (const auto& [name, weight] : without->weights) EXPECT_TRUE(torch::equal(with->weights.at(name), weight)) << name;
}

TEST(ValidationTest, RunsAtTheEndOfEachEpochByDefault) {
  JobSpec spec = ExampleJob("lenet5-serial").value();
  ShortenTo(18, "float64", spec);
  Validate(0, spec);
  const auto job =
      RunOnThreads(spec, MakeFolders("epochs", InitialWeights(3, torch::kFloat64)), TransportKind::kInMemory, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->validation_steps, (std::vector<int64_t>{8, 16, 18}));
}

// A learning rate that leaves the weights as they are: the first validation is the best, and after two more training
// ends.
TEST(ValidationTest, EndsTrainingThatGetsNoBetter) {
  JobSpec spec = ExampleJob("lenet5-spatial").value();
  ShortenTo(40, "float64", spec);
  spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e-300);
  Validate(3, spec);
  spec.mutable_train()->mutable_early_stop()->set_patience(2);
  spec.mutable_train()->mutable_early_stop()->set_metric("accuracy");
  const auto job =
      RunOnThreads(spec, MakeFolders("stop", InitialWeights(3, torch::kFloat64)), TransportKind::kInMemoryDelayed, 5);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->losses.size(), 9u);
  EXPECT_EQ(job->validation_steps, (std::vector<int64_t>{3, 6, 9}));
  EXPECT_GT(job->test_loss, 0);  // the weights are written and evaluated as after any end
}

}  // namespace
}  // namespace adjoin
