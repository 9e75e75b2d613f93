// From one initial file, every job of examples/mnist trains as a plain serial program does: loss by loss, and to the
// same weights. Ranks are threads here; mnist_cluster_test does it with daemons.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <ATen/ops/equal.h>

#include "tests/e2e/mnist_jobs.h"

namespace adjoin {
namespace {

constexpr int64_t kSteps = 50;

SerialRun Train(uint64_t seed, at::ScalarType dtype) {
  return TrainSerially({.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = kSteps},
                       InitialWeights(seed, dtype));
}

class MnistTraining : public testing::TestWithParam<const char*> {};

TEST_P(MnistTraining, EqualsSerialInFloat64) {
  JobSpec spec = ExampleJob(GetParam()).value();
  ShortenTo(kSteps, "float64", spec);
  static const SerialRun truth = Train(kSeedFloat64, at::kDouble);
  const Folders folders = MakeFolders("f64", InitialWeights(kSeedFloat64, at::kDouble));
  const auto job = RunOnThreads(spec, folders, TransportKind::kUcxSharedMemory, 1);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Differences(*job, truth, 1e-10), "");
}

TEST_P(MnistTraining, EqualsSerialInFloat32) {
  JobSpec spec = ExampleJob(GetParam()).value();
  ShortenTo(kSteps, "float32", spec);
  static const SerialRun truth = Train(kSeedFloat32, at::kFloat);
  const Folders folders = MakeFolders("f32", InitialWeights(kSeedFloat32, at::kFloat));
  const auto job = RunOnThreads(spec, folders, TransportKind::kInMemoryDelayed, 2);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Differences(*job, truth, 1e-4), "");
}

INSTANTIATE_TEST_SUITE_P(Jobs, MnistTraining, testing::ValuesIn(kExampleJobs), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(MnistTruth, IsSteady) {
  const SerialRun float32 = Train(kSeedFloat32, at::kFloat);
  const SerialRun float64 = Train(kSeedFloat32, at::kDouble);
  for (int64_t i = 0; i < kSteps; ++i) {
    EXPECT_LT(std::abs(float32.losses[i] / float64.losses[i] - 1), 1e-5) << "step " << i + 1;
  }
}

// Twelve ranks: pool2 leaves 5 rows for 12 parts, fc3 10 features, so many ranks hold nothing of some tensors.
TEST(MnistEmptyParts, APartitionFinerThanTheTensorTrainsCorrectly) {
  JobSpec spec = ExampleJob("lenet5-spatial").value();
  ShortenTo(10, "float64", spec);
  spec.set_ranks(12);
  for (LayoutSpec& layout : *spec.mutable_layout()) {
    std::vector<uint32_t> partition = layout.name() == "grid"   ? std::vector<uint32_t>{1, 1, 12, 1}
                                      : layout.name() == "chan" ? std::vector<uint32_t>{1, 1, 1, 1}
                                      : layout.name() == "row"  ? std::vector<uint32_t>{1, 1}
                                      : layout.name() == "col"  ? std::vector<uint32_t>{1, 12}
                                                                : std::vector<uint32_t>{12, 1};
    layout.mutable_partition()->Assign(partition.begin(), partition.end());
    layout.clear_rank();
  }
  const NamedTensors initial = InitialWeights(2, at::kDouble);
  const auto job = RunOnThreads(spec, MakeFolders("fine", initial), TransportKind::kInMemoryDelayed, 3);
  ASSERT_TRUE(job.ok()) << job.status();
  const SerialRun truth = TrainSerially({.train_limit = kTrainLimit, .test_limit = kTestLimit, .steps = 10}, initial);
  EXPECT_EQ(Differences(*job, truth, 1e-10), "");
}

// Three samples for four ranks, and at an epoch's end one; the other rules of the optimizer.
TEST(MnistEmptyParts, ABatchSmallerThanTheRanksTrainsCorrectly) {
  JobSpec spec = ExampleJob("lenet5-sync-sgd").value();
  ShortenTo(12, "float64", spec);
  spec.mutable_dataset(0)->set_limit(16);
  spec.mutable_dataset(1)->set_limit(10);
  spec.mutable_train()->set_batch(3);
  Sgd& sgd = *spec.mutable_train()->mutable_optimizer()->mutable_sgd();
  sgd.set_nesterov(true);
  sgd.set_weight_decay(0.1);
  const NamedTensors initial = InitialWeights(3, at::kDouble);
  const auto job = RunOnThreads(spec, MakeFolders("batch", initial), TransportKind::kInMemoryDelayed, 5);
  ASSERT_TRUE(job.ok()) << job.status();
  const SerialRun truth = TrainSerially(
      {.train_limit = 16, .test_limit = 10, .batch = 3, .steps = 12, .weight_decay = 0.1, .nesterov = true}, initial);
  EXPECT_EQ(Differences(*job, truth, 1e-10), "");
}

// Drawn from the seed, the initial weights are the same whatever the layouts are.
TEST(MnistInitialisation, DoesNotDependOnTheLayouts) {
  NamedTensors first;
  for (const char* name : kExampleJobs) {
    JobSpec spec = ExampleJob(name).value();
    ShortenTo(1, "float64", spec);
    spec.clear_weights();
    spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_lr(1e-300);  // leaves the weights as they are
    const auto job = RunOnThreads(spec, MakeFolders(name, {}), TransportKind::kInMemory, 1);
    ASSERT_TRUE(job.ok()) << job.status();
    if (first.empty()) first = job->weights;
    for (const auto& [parameter, value] : first) {
      EXPECT_TRUE(at::equal(value, job->weights.at(parameter))) << name << " " << parameter;
    }
  }
}

}  // namespace
}  // namespace adjoin
