// Sums, means, variances and extremes over dims, of any layout, equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var.h>
#include <ATen/ops/where.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using at::Tensor;

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> shape(random.Between(2, 5));
  for (int64_t& extent : shape) extent = random.Between(1, 5);
  std::vector<int64_t> dims, written;
  int64_t count = 1;
  for (int64_t dim = 1; dim < static_cast<int64_t>(shape.size()); ++dim) {
    const bool is_last = dims.empty() && dim + 1 == static_cast<int64_t>(shape.size());
    if (!is_last && !random.OneIn(2)) continue;
    dims.push_back(dim);
    written.push_back(random.OneIn(2) ? dim : dim - static_cast<int64_t>(shape.size()));
    count *= shape[dim];
  }
  // A result of one dim could not be read by the layers behind it in the job.
  const bool keepdim = random.OneIn(2) || shape.size() < dims.size() + 2, biased = random.OneIn(2);
  const std::string kind =
      count > 1 ? random.Of<std::string>({"sum", "mean", "var", "var", "amax", "amax", "amin"}) : "sum";
  Tensor x = random.Normal(shape);
  // Elements that are equal share a gradient.
  if (kind[0] == 'a' && random.OneIn(2)) x = x.round();
  if (kind[0] == 'a' && random.OneIn(4)) {
    const double none = kind == "amax" ? -INFINITY : INFINITY;
    const Tensor masked = x.masked_fill(random.Normal(shape) > 0, none);
    const Tensor extreme = kind == "amax" ? at::amax(masked, dims, true) : at::amin(masked, dims, true);
    x = at::where(extreme.isinf(), x, masked);
  }
  x.requires_grad_();
  Tensor y = kind == "sum" ? at::sum(x, dims, keepdim) : at::mean(x, dims, keepdim);
  if (kind == "amax") y = at::amax(x, dims, keepdim);
  if (kind == "amin") y = at::amin(x, dims, keepdim);
  if (kind == "var") y = at::var(x, dims, /*unbiased=*/!biased, keepdim);
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = static_cast<int>(y.dim());
  AddRandomInput(random, "x", shape, job);
  std::string fields;
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("y", y.sizes().vec(), job.ranks, /*copies=*/true);
    fields = " y: \"y\"";
  }
  absl::StrAppend(&job.layers, "layer { name: \"y\"", fields, " reduce { kind: \"", kind, "\" dim: [",
                  absl::StrJoin(written, ", "), "]", keepdim ? " keepdim: true" : "",
                  kind == "var" && biased ? " correction: 0" : "", " } }\n");
  return CompareLayer(job, random, x, {}, y, transport);
}

TEST(ReduceTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(ReduceTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// The sums inside are float32, also on a rank that only waits for the result.
TEST(ReduceTest, RanksOutsideHaveTheTypeOfTheJob) {
  RandomJobs random(5);
  for (const std::string kind : {"sum", "mean", "var", "amax", "amin"}) {
    JobParts job;
    job.ranks = 3;
    job.batch = 2;
    job.x_shape = {4, 6};
    job.layouts = LayoutText("x", {1, 2, 1}, {0, 1}) + LayoutText("y", {2, 1}, {2, 0});
    job.layers =
        absl::StrCat("layer { name: \"in\" input: \"x\" x: \"x\" parameter { shape: [1] combine: \"add\" } }\n",
                     "layer { name: \"y\" y: \"y\" reduce { kind: \"", kind, "\" dim: 1 } }\n");
    const std::string text =
        absl::StrReplaceAll(JobText(job), {{"compute: \"float64\"", "compute: \"bfloat16\" params: \"float32\""}});
    const auto plan = PlanOf(text, {{"data", job.batch}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Tensor x = random.Normal({2, 4, 6}).to(at::kBFloat16);
    StepInput input;
    input.fields = {{"x", x}, {"label", random.Labels(2, 3)}};
    const auto ranks = RunStep(*plan, input);
    ASSERT_TRUE(ranks.ok()) << kind << ": " << ranks.status();
  }
}

std::string ErrorOf(const std::string& op) {
  JobParts job;
  job.ranks = 1;
  job.batch = 2;
  job.x_shape = {3, 4};
  job.last_dims = 3;
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" ", op, " }\n");
  const auto plan = PlanOf(JobText(job), {{"data", job.batch}});
  return plan.ok() ? "" : std::string(plan.status().message());
}

TEST(ReduceTest, RefusesWhatItCannotReduce) {
  const auto refuses = [](const std::string& op, const std::string& text) {
    EXPECT_TRUE(absl::StrContains(ErrorOf(op), text)) << op << ": " << ErrorOf(op);
  };
  refuses("reduce { dim: 1 }", "reduce.kind is missing; write \"sum\", \"mean\", \"var\", \"amax\" or \"amin\"");
  refuses("reduce { kind: \"max\" dim: 1 }", "reduce.kind is \"max\"");
  refuses("reduce { kind: \"sum\" }", "reduce.dim is missing");
  refuses("reduce { kind: \"sum\" dim: 0 }", "dim 0 is the batch");
  refuses("reduce { kind: \"sum\" dim: -3 }", "dim 0 is the batch");
  refuses("reduce { kind: \"sum\" dim: 3 }", "3");
  refuses("reduce { kind: \"sum\" dim: [1, -2] }", "dim -2 is named twice");
  refuses("reduce { kind: \"sum\" dim: 1 correction: 1 }", "is for kind \"var\"");
  refuses("reduce { kind: \"var\" dim: 1 correction: -1 }", "reduce.correction is -1");
  refuses("reduce { kind: \"var\" dim: 1 correction: nan }", "reduce.correction is nan");
}

}  // namespace
}  // namespace adjoin
