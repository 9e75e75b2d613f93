// Convolutions over parts so large that the plan leaves them where they are and exchanges the edges alone: as serial
// LibTorch's, on every rank.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
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
  std::vector<std::string> edges;                                // roles
  std::vector<int64_t> stride = {};                              // none: 1
  std::vector<int64_t> padding = {};                             // none: half of the dilated kernel
  std::map<int, std::vector<int64_t>> x_cuts = {}, y_cuts = {};  // none: even
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
      // Nothing is read after a part.
      {"StrideRows", {1, 4, 520, 512}, {1, 1, 2, 1}, {3, 3}, {1, 1}, 1, 2, {"edges2"}, {2, 2}},
      {"StrideGrid", {2, 8, 512, 640}, {1, 1, 2, 2}, {7, 4}, {1, 1}, 1, 2, {"edges2", "edges3"}, {2, 2}},
      {"StrideVolume",
       {1, 4, 64, 96, 100},
       {1, 1, 2, 1, 2},
       {3, 3, 5},
       {1, 1, 1},
       1,
       1,
       {"edges2", "edges4"},
       {2, 3, 2}},
      {"StrideTrace", {2, 4, 480000}, {1, 1, 3}, {9}, {1}, 1, 2, {"edges2"}, {4}},
      {"StrideDilated", {1, 8, 512, 600}, {1, 1, 1, 2}, {3, 3}, {1, 2}, 1, 2, {"edges3"}, {1, 2}},
      {"StrideInputChannels", {1, 8, 512, 600}, {1, 2, 2, 1}, {3, 3}, {1, 1}, 1, 2, {"edges2"}, {2, 2}},
      // Another dim need not return as many outputs as it reads.
      {"WholeColumnsWithoutPadding", {1, 4, 520, 512}, {1, 1, 2, 1}, {3, 3}, {1, 1}, 1, 2, {"edges2"}, {1, 2}, {1, 0}},
      // The output's parts, 131 and 130 rows, do not start where those of the input do, at row 261: this has a halo.
      {"StrideOddRows", {1, 4, 522, 512}, {1, 1, 2, 1}, {3, 3}, {1, 1}, 1, 2, {}, {2, 2}},
  };
}

std::ostream& operator<<(std::ostream& out, const EdgeCase& c) { return out << c.name; }

// "" where all is equal, and `c.edges` are what the plan exchanges.
std::string Compare(const EdgeCase& c, RandomJobs& random) {
  JobParts job;
  job.ranks = 1;
  for (int64_t parts : c.partition) job.ranks *= parts;
  job.batch = c.x_shape[0];
  job.x_shape.assign(c.x_shape.begin() + 1, c.x_shape.end());
  job.last_dims = static_cast<int>(c.x_shape.size());
  const std::vector<int> ranks = random.Ranks(job.ranks, job.ranks);
  job.layouts = LayoutText("x", c.partition, ranks, c.x_cuts);
  if (!c.y_cuts.empty()) absl::StrAppend(&job.layouts, LayoutText("y", c.partition, ranks, c.y_cuts));
  const std::vector<int64_t> stride = c.stride.empty() ? std::vector<int64_t>(c.kernel.size(), 1) : c.stride;
  std::vector<int64_t> padding = c.padding, w_shape = {c.out, c.x_shape[1] / c.groups};
  for (size_t i = 0; i < c.kernel.size(); ++i) {
    if (c.padding.empty()) padding.push_back(c.dilation[i] * (c.kernel[i] - 1) / 2);
    w_shape.push_back(c.kernel[i]);
  }
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", c.y_cuts.empty() ? "" : "y: \"y\" ",
                            "conv { out_channels: ", c.out, " groups: ", c.groups,
                            " window { kernel: ", ListText(c.kernel), " stride: ", ListText(stride),
                            " dilation: ", ListText(c.dilation), " pad_lo: ", ListText(padding), " } } }\n");
  const auto plan = PlanOf(JobText(job), {{"data", job.batch}});
  if (!plan.ok()) return plan.status().ToString();
  std::vector<std::string> edges;
  for (const OperatorUse& use : plan->program(0).layer(0).op()) {
    if (use.role().rfind("edges", 0) == 0) edges.push_back(use.role());
  }
  if (edges != c.edges) return absl::StrCat(edges.size(), " edges, not ", c.edges.size(), "\n", JobText(job));

  const at::Tensor x = random.Normal(c.x_shape).requires_grad_();
  const at::Tensor weight = random.Normal(w_shape).requires_grad_();
  const at::Tensor bias = random.Normal({c.out}).requires_grad_();
  const std::vector<int64_t> zeros(c.kernel.size(), 0);
  const at::Tensor y =
      at::convolution(x, weight, bias, stride, padding, c.dilation, /*transposed=*/false, zeros, c.groups);
  return CompareLayer(job, random, x, {{"y.weight", weight}, {"y.bias", bias}}, y, TransportKind::kInMemoryDelayed);
}

class EdgeConvTest : public testing::TestWithParam<EdgeCase> {};

TEST_P(EdgeConvTest, EqualsSerial) {
  RandomJobs random(TestSeed(11));
  EXPECT_EQ(Compare(GetParam(), random), "");
}

INSTANTIATE_TEST_SUITE_P(All, EdgeConvTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// One spatial dim: kernel, stride and padding for which parts have edges, in up to three parts of uneven sizes, each a
// stride's inputs for each output.
void AddDim(RandomJobs& random, int64_t largest_kernel, int64_t most_parts, int64_t cells, EdgeCase& c) {
  const int dim = static_cast<int>(c.x_shape.size());
  int64_t kernel, stride, dilation, inside;
  do {
    kernel = random.Between(2, largest_kernel);
    stride = random.Between(1, 3);
    dilation = random.Between(1, 2);
    inside = dilation * (kernel - 1) + 1 - random.Between(0, 4) * 2;
  } while (inside < 1 || inside > stride);
  const int64_t padding = (dilation * (kernel - 1) + 1 - inside) / 2, parts = random.Between(1, most_parts);
  int64_t inputs = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t outputs = cells / stride + 1 + random.Between(0, 9);
    inputs += stride * outputs;
    if (parts == 1) continue;
    c.x_cuts[dim].push_back(stride * outputs);
    c.y_cuts[dim].push_back(outputs);
  }
  if (parts > 1 && padding > 0) c.edges.push_back(absl::StrCat("edges", dim));
  c.x_shape.push_back(inputs);
  c.partition.push_back(parts);
  c.kernel.push_back(kernel);
  c.stride.push_back(stride);
  c.dilation.push_back(dilation);
  c.padding.push_back(padding);
}

TEST(RandomEdgeConvTest, StridesAndUnevenPartsEqualSerial) {
  const uint64_t first = TestSeed(700);
  for (uint64_t seed = first; seed < first + 10; ++seed) {
    RandomJobs random(seed);
    EdgeCase c;
    do {
      c = EdgeCase();
      c.x_shape = {1, 4};
      c.partition = {1, 1};
      if (seed % 2 == 0) {
        AddDim(random, 7, 3, 132000, c);
      } else {
        AddDim(random, 4, 2, 365, c);
        AddDim(random, 4, 2, 365, c);
      }
    } while (c.edges.empty());
    ASSERT_EQ(Compare(c, random), "") << "ADJOIN_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace adjoin
