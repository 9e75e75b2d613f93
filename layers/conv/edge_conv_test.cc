// Convolutions over parts so large that the plan leaves them where they are and exchanges the edges alone: as serial
// LibTorch's, on every rank.
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>

#include "absl/strings/str_cat.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

struct EdgeCase {
  std::string name;
  std::vector<int64_t> x_shape;
  std::vector<int64_t> partition;
  std::vector<int64_t> kernel;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  int64_t out = 2;
  std::vector<std::string> edges;  // roles
};

std::vector<EdgeCase> Cases() {
  return {
      {"Rows", {1, 4, 520, 512}, {1, 1, 2, 1}, {3, 3}, {1, 1}, 1, 2, {"edges2"}},
      {"Grid", {2, 8, 512, 640}, {1, 1, 2, 2}, {5, 3}, {1, 2}, 1, 2, {"edges2", "edges3"}},
      {"ThreeRowsUneven", {1, 8, 601, 355}, {1, 1, 3, 1}, {7, 1}, {1, 1}, 1, 1, {"edges2"}},
      {"BatchAndColumns", {2, 4, 300, 900}, {2, 1, 1, 2}, {1, 5}, {1, 3}, 1, 2, {"edges3"}},
      {"Volume", {1, 4, 64, 96, 100}, {1, 1, 2, 1, 2}, {3, 3, 3}, {1, 1, 1}, 1, 1, {"edges2", "edges4"}},
      {"Trace", {2, 4, 480000}, {1, 1, 3}, {5}, {4}, 1, 2, {"edges2"}},
      {"Depthwise", {1, 4, 512, 600}, {1, 1, 2, 1}, {3, 3}, {1, 1}, 4, 4, {"edges2"}},
      {"InputChannels", {1, 8, 512, 600}, {1, 2, 2, 1}, {3, 3}, {1, 1}, 1, 2, {"edges2"}},
      {"GroupsByChannels", {1, 8, 512, 600}, {1, 2, 2, 1}, {3, 3}, {1, 1}, 2, 4, {"edges2"}},
  };
}

std::ostream& operator<<(std::ostream& out, const EdgeCase& c) { return out << c.name; }

class EdgeConvTest : public testing::TestWithParam<EdgeCase> {};

TEST_P(EdgeConvTest, EqualsSerial) {
  const EdgeCase& c = GetParam();
  RandomJobs random(TestSeed(11));
  JobParts job;
  job.ranks = 1;
  for (int64_t parts : c.partition) job.ranks *= parts;
  job.batch = c.x_shape[0];
  job.x_shape.assign(c.x_shape.begin() + 1, c.x_shape.end());
  job.last_dims = static_cast<int>(c.x_shape.size());
  job.layouts = LayoutText("x", c.partition, random.Ranks(job.ranks, job.ranks));
  std::vector<int64_t> padding, w_shape = {c.out, c.x_shape[1] / c.groups};
  for (size_t i = 0; i < c.kernel.size(); ++i) {
    padding.push_back(c.dilation[i] * (c.kernel[i] - 1) / 2);
    w_shape.push_back(c.kernel[i]);
  }
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" conv { out_channels: ", c.out,
                            " groups: ", c.groups, " window { kernel: ", ListText(c.kernel),
                            " dilation: ", ListText(c.dilation), " pad_lo: ", ListText(padding), " } } }\n");
  const Plan plan = PlanOf(JobText(job), {{"data", job.batch}}).value();
  std::vector<std::string> edges;
  for (const OperatorUse& use : plan.program(0).layer(0).op()) {
    if (use.role().rfind("edges", 0) == 0) edges.push_back(use.role());
  }
  EXPECT_EQ(edges, c.edges);

  const at::Tensor x = random.Normal(c.x_shape).requires_grad_();
  const at::Tensor weight = random.Normal(w_shape).requires_grad_();
  const at::Tensor bias = random.Normal({c.out}).requires_grad_();
  const std::vector<int64_t> ones(c.kernel.size(), 1), zeros(c.kernel.size(), 0);
  const at::Tensor y =
      at::convolution(x, weight, bias, ones, padding, c.dilation, /*transposed=*/false, zeros, c.groups);
  EXPECT_EQ(CompareLayer(job, random, x, {{"y.weight", weight}, {"y.bias", bias}}, y, TransportKind::kInMemoryDelayed),
            "");
}

INSTANTIATE_TEST_SUITE_P(All, EdgeConvTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace adjoin
