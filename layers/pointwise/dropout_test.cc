// Dropout and noise equal serial LibTorch with numbers that are drawn cell by cell, and are the same for any number of
// ranks and any micro-batches.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "primitives/random/philox.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/placed_output.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/random_layer_job.h"

namespace adjoin {
namespace {

using at::Tensor;

// The job's seed in all of them.
constexpr uint64_t kSeed = 1;

double UniformOf(uint64_t purpose, int64_t step, int64_t layer, int64_t index) {
  return UniformAt(kSeed, purpose, static_cast<uint64_t>(step * 65536 + layer), static_cast<uint64_t>(index));
}

// What a batch of `shape` is multiplied with.
Tensor Factors(const std::vector<int64_t>& shape, double p, bool channel, int64_t step, int64_t layer) {
  Tensor factors = at::zeros(shape, at::kDouble);
  double* out = factors.data_ptr<double>();
  int64_t each = 1;  // cells that share a number
  for (size_t dim = 2; channel && dim < shape.size(); ++dim) each *= shape[dim];
  for (int64_t i = 0; i < factors.numel(); ++i) {
    if (UniformOf(kPurposeDropout, step, layer, i / each) >= p) out[i] = 1 / (1 - p);
  }
  return factors;
}

Tensor Normals(const std::vector<int64_t>& shape, int64_t step, int64_t layer) {
  Tensor normals = at::zeros(shape, at::kDouble);
  for (int64_t i = 0; i < normals.numel(); ++i) {
    const double u = UniformOf(kPurposeNoise, step, layer, i & ~int64_t{1});
    const double v = UniformOf(kPurposeNoise, step, layer, i | 1);
    const double radius = std::sqrt(-2 * std::log(1 - u));
    normals.data_ptr<double>()[i] = radius * (i % 2 == 0 ? std::cos(2 * M_PI * v) : std::sin(2 * M_PI * v));
  }
  return normals;
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 6);
  const double number = random.Of<double>({0, 0.1, 0.25, 0.5, 0.9, 1});
  const bool noise = random.OneIn(3), flag = random.OneIn(2);
  const std::string op = noise ? absl::StrCat("noise { std: ", number + 0.5, flag ? " multiplicative: true" : "", " }")
                               : absl::StrCat("dropout { p: ", number, flag ? " channel: true" : "", " }");
  const JobParts job = RandomLayerJob(random, op, random.Between(1, 6), shape, shape);
  const int64_t layer = absl::StrContains(job.layers, "\"before\"") ? 1 : 0;
  const Tensor x = random.Normal(shape).requires_grad_();
  Tensor y;
  if (noise) {
    const Tensor z = Normals(shape, 0, layer) * (number + 0.5);
    y = flag ? x * (1 + z) : x + z;
  } else {
    y = x * Factors(shape, number, flag, 0, layer);
  }
  return CompareLayer(job, random, x, {}, y, transport);
}

TEST(DropoutTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(DropoutTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

constexpr int64_t kBatch = 8;

// [batch, 6, 9, 10] on so many ranks, in a cut of its own for each number.
absl::StatusOr<Plan> PlanOn(int64_t ranks, int64_t batch, const std::string& op) {
  const std::map<int64_t, std::string> layouts = {{1, "partition: [1, 1, 1, 1]"},
                                                  {2, "partition: [1, 1, 2, 1] rank: [1, 0]"},
                                                  {3, "partition: [1, 3, 1, 1] cut { dim: 1 size: [4, 0, 2] }"},
                                                  {4, "mesh { size: 2 } sbp: \"B\" mesh { size: 2 } sbp: \"S(3)\""},
                                                  {6, "partition: [1, 1, 2, 3] rank: [3, 1, 5, 0, 2, 4]"}};
  JobParts job;
  job.ranks = ranks;
  job.batch = batch;
  job.x_shape = {6, 9, 10};
  job.last_dims = 4;
  job.layouts = absl::StrCat("layout { name: \"x\" ", layouts.at(ranks), " }\n");
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", op, " }\n");
  return PlanOf(absl::StrCat(JobText(job), "evaluate { dataset: \"data\" metric: \"loss\" batch: ", batch, " }\n"),
                {{"data", kBatch}});
}

TEST(DropoutTest, IsTheSameOnAnyRanksAndForAnyMicroBatches) {
  constexpr int64_t kStep = 5;
  const Tensor x = RandomJobs(1).Normal({kBatch, 6, 9, 10});
  const std::vector<int64_t> shape = x.sizes().vec();
  const std::vector<std::pair<std::string, Tensor>> cases = {
      {"dropout { p: 0.3 }", x * Factors(shape, 0.3, false, kStep, 0)},
      {"dropout { p: 0.3 channel: true }", x * Factors(shape, 0.3, true, kStep, 0)},
      {"noise { std: 0.5 }", x + 0.5 * Normals(shape, kStep, 0)},
      {"noise { std: 0.5 multiplicative: true }", x * (1 + 0.5 * Normals(shape, kStep, 0))}};
  for (const auto& [op, expected] : cases) {
    for (const int64_t ranks : {1, 2, 3, 4, 6}) {
      for (const int64_t micro : {1, 2, 4}) {
        const int64_t part = kBatch / micro;
        const auto plan = PlanOn(ranks, part, op);
        ASSERT_TRUE(plan.ok()) << plan.status();
        std::vector<Tensor> parts;
        for (int64_t i = 0; i < micro; ++i) {
          auto y = OutputAt({kStep, i * part}, *plan, "train", x.narrow(0, i * part, part));
          ASSERT_TRUE(y.ok()) << y.status();
          parts.push_back(*y);
        }
        EXPECT_TRUE(at::allclose(at::cat(parts), expected, 1e-13, 1e-13))
            << op << " on " << ranks << " ranks, " << micro << " micro-batches";
      }
    }
  }
}

TEST(DropoutTest, AnotherStepSeedOrLayerDrawsOthers) {
  const Tensor ones = at::ones({kBatch, 6, 9, 10}, at::kDouble);
  auto plan = PlanOn(2, kBatch, "dropout { p: 0.5 }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Tensor first = OutputAt({0, 0}, *plan, "train", ones).value();
  const auto share = [&](const Tensor& other) { return (first == other).to(at::kDouble).mean().item<double>(); };
  EXPECT_EQ(share(OutputAt({0, 0}, *plan, "train", ones).value()), 1);
  // Two independent masks agree in half of their 4320 cells: five standard deviations are 0.038.
  EXPECT_NEAR(share(OutputAt({1, 0}, *plan, "train", ones).value()), 0.5, 0.04);
  EXPECT_NEAR(share(Factors(ones.sizes().vec(), 0.5, false, 0, /*layer=*/1)), 0.5, 0.04);
  plan->mutable_spec()->set_seed(2);
  EXPECT_NEAR(share(OutputAt({0, 0}, *plan, "train", ones).value()), 0.5, 0.04);
}

TEST(DropoutTest, ChangesNothingWhereNothingIsTrained) {
  const Tensor x = RandomJobs(2).Normal({kBatch, 6, 9, 10});
  for (const std::string op : {"dropout { p: 0.5 }", "noise { std: 1 }"}) {
    const auto plan = PlanOn(6, kBatch, op);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto y = OutputAt({3, 0}, *plan, "evaluate", x);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_TRUE(at::equal(*y, x));
    for (const ProgramPlan& program : plan->program()) {
      EXPECT_EQ(program.layer(0).op_size(), 0) << program.name();
      EXPECT_EQ(program.layer(0).flops() > 0, program.training()) << program.name();
    }
  }
}

TEST(DropoutTest, BadNumbersAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"dropout { p: -0.1 }", "dropout.p is -0.1; it is a probability, from 0 to 1"},
      {"dropout { p: 1.5 }", "dropout.p is 1.5; it is a probability, from 0 to 1"},
      {"dropout { p: nan }", "dropout.p is nan; it is a probability, from 0 to 1"},
      {"noise { }", "noise.std is 0; it must be a finite number above 0"},
      {"noise { std: inf }", "noise.std is inf; it must be a finite number above 0"},
      {"frozen: true dropout { p: 0.5 }", "frozen is for a layer's parameters, and it has none"}};
  for (const auto& [op, message] : cases) {
    const auto plan = PlanOn(1, kBatch, op);
    EXPECT_TRUE(absl::StrContains(std::string(plan.status().message()), message)) << op << "\n" << plan.status();
  }
}

}  // namespace
}  // namespace adjoin
