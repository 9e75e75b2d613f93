// Products of two inputs, of any layouts, equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/matmul.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using at::Tensor;

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> a(random.Between(3, 5));
  for (int64_t& extent : a) extent = random.Between(1, 5);
  std::vector<int64_t> b = a;
  const size_t last = a.size() - 1;
  b[last - 1] = a[last];
  b[last] = random.Between(1, 5);
  for (size_t dim = 1; dim + 1 < last; ++dim) {
    if (random.OneIn(4)) (random.OneIn(2) ? a : b)[dim] = 1;
  }
  const Tensor of_a = random.Normal(a).requires_grad_(), of_b = random.Normal(b).requires_grad_();
  const Tensor y = at::matmul(of_a, of_b);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(a.size());
  AddRandomInput(random, "x", a, job);
  AddRandomInput(random, "x1", b, job);
  std::string ends;
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("first", a, job.ranks, /*copies=*/true);
    ends = " x: \"first\"";
  }
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("y", y.sizes().vec(), job.ranks, /*copies=*/true);
    ends += " y: \"y\"";
  }
  absl::StrAppend(&job.layers, "layer { name: \"y\" input: \"in_x\" input: \"in_x1\"", ends, " matmul {} }\n");
  return CompareLayer(job, random, {{"x", of_a}, {"x1", of_b}}, {}, {{"y", y}}, transport);
}

TEST(MatmulTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// The second input is one matrix for all samples, as a function of weights is.
std::string CompareOneSample(uint64_t seed) {
  RandomJobs random(seed);
  std::vector<int64_t> a(random.Between(3, 5));
  for (int64_t& extent : a) extent = random.Between(1, 5);
  const size_t last = a.size() - 1;
  std::vector<int64_t> b(a.begin() + 1, a.end());
  b[last - 2] = a[last];
  b[last - 1] = random.Between(1, 5);
  for (size_t dim = 0; dim + 3 < a.size(); ++dim) b[dim] = random.OneIn(2) ? 1 : a[dim + 1];
  const Tensor of_a = random.Normal(a).requires_grad_();
  Tensors parameters;
  parameters["w.weight"] = random.Normal(b).requires_grad_();
  const Tensor y = at::matmul(of_a, parameters["w.weight"].unsqueeze(0));
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(a.size());
  AddRandomInput(random, "x", a, job);
  absl::StrAppend(&job.layers, "layer { name: \"w\" input: \"in_x\" parameter { shape: [", absl::StrJoin(b, ", "),
                  "] combine: \"value\" } }\n");
  std::string ends;
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("first", a, job.ranks, /*copies=*/true);
    ends = " x: \"first\"";
  }
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("y", y.sizes().vec(), job.ranks, /*copies=*/true);
    ends += " y: \"y\"";
  }
  absl::StrAppend(&job.layers, "layer { name: \"y\" input: \"in_x\" input: \"w\"", ends, " matmul {} }\n");
  return CompareLayer(job, random, {{"x", of_a}}, parameters, {{"y", y}}, TransportKind::kInMemoryDelayed);
}

TEST(MatmulTest, OneMatrixForAllSamplesEqualsSerial) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(CompareOneSample(seed + i), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(MatmulTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// The axis on which the first input is the same cuts the columns of the product, and nothing is summed.
TEST(MatmulTest, CutsColumnsAsTheOutput) {
  RandomJobs random(7);
  const Tensor a = random.Normal({2, 3, 4}).requires_grad_(), b = random.Normal({2, 4, 5}).requires_grad_();
  JobParts job;
  job.ranks = 2;
  job.last_dims = 3;
  job.layouts =
      "layout { name: \"same\" mesh { size: 2 } sbp: \"B\" }\nlayout { name: \"columns\" mesh { size: 2 } sbp: "
      "\"S(2)\" }\n";
  AddRandomInput(random, "x", {2, 3, 4}, job);
  AddRandomInput(random, "x1", {2, 4, 5}, job);
  absl::StrAppend(&job.layers,
                  "layer { name: \"y\" input: \"in_x\" input: \"in_x1\" x: \"same\" y: \"columns\" matmul {} }\n");
  EXPECT_EQ(
      CompareLayer(job, random, {{"x", a}, {"x1", b}}, {}, {{"y", at::matmul(a, b)}}, TransportKind::kInMemoryDelayed),
      "");
}

std::string ErrorOf(const std::string& layers) {
  JobParts job;
  job.ranks = 1;
  job.batch = 2;
  job.x_shape = {3, 4};
  job.last_dims = 3;
  job.layers = layers;
  const auto plan = PlanOf(JobText(job), {{"data", job.batch}});
  return plan.ok() ? "" : std::string(plan.status().message());
}

TEST(MatmulTest, RefusesWhatIsNoProduct) {
  const auto refuses = [](const std::string& before, const std::string& inputs, const std::string& text) {
    const std::string error = ErrorOf(absl::StrCat("layer { name: \"a\" input: \"x\" activation { fn: \"relu\" } }\n",
                                                   before, "layer { name: \"y\" ", inputs, " matmul {} }\n"));
    EXPECT_TRUE(absl::StrContains(error, text)) << error;
  };
  refuses("", "input: \"a\" input: \"a\"", "k differs: input 0 is 2x3x4, input 1 is 2x3x4");
  refuses("layer { name: \"b\" input: \"a\" permute { arg: [0, 2, 1] } }\n", "input: \"a\" input: \"b\" input: \"a\"",
          "matmul multiplies two inputs, but 3 are named");
  refuses("layer { name: \"b\" input: \"a\" reshape { arg: [4, 3, 1] } }\n", "input: \"a\" input: \"b\"",
          "these differ in their number of dims");
}

}  // namespace
}  // namespace adjoin
