// Convolutions over any layouts of input, weight and output equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/conv/conv_cases.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

constexpr int64_t kWorld = 8;

int64_t Product(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<int64_t>());
}

// Any layout called `name` of a tensor of `shape`; its channels are cut half of the time.
std::string AnyLayout(RandomJobs& random, const std::string& name, const std::vector<int64_t>& shape, bool copies) {
  std::vector<int64_t> partition =
      random.Partition(static_cast<int>(shape.size()), /*whole=*/random.OneIn(2) ? 1 : -1, random.Between(1, kWorld));
  const int64_t parts = Product(partition);
  if (copies && random.OneIn(2)) {
    return random.MeshLayout(name, shape, partition, random.Between(1, kWorld / parts), kWorld);
  }
  return LayoutText(name, partition, random.Ranks(parts, kWorld), random.Cuts(shape, partition));
}

// A layout of the weight: two numbers, one for each dim (those of the kernel cut the spatial dims), or a mesh with axes
// along which it is the same.
std::string WeightLayout(RandomJobs& random, const std::vector<int64_t>& weight) {
  std::vector<int64_t> partition = random.Partition(2, /*whole=*/-1, random.Between(1, kWorld));
  const std::map<int, std::vector<int64_t>> cuts = random.Cuts({weight[0], weight[1]}, partition);
  const int64_t rest = kWorld / Product(partition);
  if (random.OneIn(3)) {
    std::vector<std::pair<int64_t, std::string>> axes = {{partition[0], "S(0)"}, {partition[1], "S(1)"}};
    const int64_t extra = random.Between(1, rest);
    axes.push_back({extra, "B"});
    if (rest / extra > 1) axes.push_back({random.Between(1, rest / extra), "B"});
    if (partition[0] == 4) {
      axes[0].first = 2;
      axes.push_back({2, "S(0)"});
    }
    std::string text = "layout { name: \"w\"";
    int64_t count = 1;
    for (int at : random.Ranks(static_cast<int64_t>(axes.size()), static_cast<int64_t>(axes.size()))) {
      absl::StrAppend(&text, " mesh { size: ", axes[at].first, " } sbp: \"", axes[at].second, "\"");
      count *= axes[at].first;
    }
    absl::StrAppend(&text, " rank: [", absl::StrJoin(random.Ranks(count, kWorld), ", "), "]");
    for (const auto& [dim, sizes] : cuts) absl::StrAppend(&text, " cut { dim: ", dim, " size: ", ListText(sizes), " }");
    return text + " }\n";
  }
  if (random.OneIn(2)) {
    partition.resize(weight.size(), 1);
    partition[random.Between(2, static_cast<int64_t>(weight.size()) - 1)] = random.Between(1, rest);
  }
  return LayoutText("w", partition, random.Ranks(Product(partition), kWorld), cuts);
}

std::string CompareConv(uint64_t seed, int spatial, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> extents;
  ConvCase conv = RandomConv(random, spatial, spatial == 1 ? 24 : spatial == 2 ? 10 : 6, extents);
  std::vector<int64_t> x_shape = {random.Between(1, 4), conv.in};
  x_shape.insert(x_shape.end(), extents.begin(), extents.end());
  JobParts job;
  job.ranks = kWorld;
  job.batch = x_shape[0];
  job.x_shape.assign(x_shape.begin() + 1, x_shape.end());
  job.last_dims = spatial + 2;

  at::Tensor x = random.Normal(x_shape).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal(conv.WeightShape()).requires_grad_()}};
  at::Tensor bias;
  if (conv.bias) bias = parameters["y.bias"] = random.Normal({conv.out}).requires_grad_();
  const at::Tensor y = conv.Serial(x, parameters["y.weight"], bias);

  std::string head = "name: \"y\"";
  // A field with copies would have partial gradients, and the comparison is with whole ones.
  const bool moved = random.OneIn(2);
  job.layouts = AnyLayout(random, "x", x_shape, /*copies=*/moved);
  if (moved) {
    job.layouts += AnyLayout(random, "other", x_shape, /*copies=*/false);
    job.layers = "layer { name: \"before\" input: \"x\" x: \"other\" y: \"other\" repartition {} }\n";
  } else {
    head += " input: \"x\"";
  }
  head += " x: \"x\"";
  if (random.OneIn(2)) {
    job.layouts += WeightLayout(random, conv.WeightShape());
    head += " w: \"w\"";
  }
  if (random.OneIn(2)) {
    job.layouts += AnyLayout(random, "y", y.sizes().vec(), /*copies=*/true);
    head += " y: \"y\"";
  }
  // The owner may take no part in the layer.
  const std::string owner = absl::StrCat(" home: OWNER owner: ", random.Between(1, kWorld - 1));
  head += random.Of<std::string>({"", " home: OWNER", owner, " home: REPLICATED", " home: SHARDED"});
  absl::StrAppend(&job.layers, "layer { ", head, " ", conv.Text(), " }\n");
  return CompareLayer(job, random, x, parameters, y, transport);
}

// The layer of `fields`, without a random part: x in layout "x" of `layouts`.
struct FixedCase {
  int64_t ranks = 1;
  std::vector<int64_t> x_shape;
  int64_t out = 1;
  int64_t groups = 1;
  std::string layouts;
  std::string fields;
  int64_t kernel = 3;
  bool moved = false;  // the field is on rank 0
};

JobParts JobOf(const FixedCase& c, ConvCase& conv) {
  conv.in = c.x_shape[1];
  conv.out = c.out;
  conv.groups = c.groups;
  while (conv.kernel.size() + 2 < c.x_shape.size()) conv.AddDim(c.kernel, 1, 1, c.kernel / 2, c.kernel / 2);
  JobParts job;
  job.ranks = c.ranks;
  job.batch = c.x_shape[0];
  job.x_shape.assign(c.x_shape.begin() + 1, c.x_shape.end());
  job.last_dims = static_cast<int>(c.x_shape.size());
  job.layouts = c.layouts;
  job.layers = absl::StrCat(
      c.moved ? "layer { name: \"before\" input: \"x\" x: \"rank0\" y: \"rank0\" repartition {} }\n" : "",
      "layer { name: \"y\" ", c.moved ? "" : "input: \"x\" ", "x: \"x\" ", c.fields, " ", conv.Text(), " }\n");
  return job;
}

std::string CompareFixed(const FixedCase& c) {
  ConvCase conv;
  const JobParts job = JobOf(c, conv);
  RandomJobs random(1);
  at::Tensor x = random.Normal(c.x_shape).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal(conv.WeightShape()).requires_grad_()},
                        {"y.bias", random.Normal({conv.out}).requires_grad_()}};
  const at::Tensor y = conv.Serial(x, parameters["y.weight"], parameters["y.bias"]);
  return CompareLayer(job, random, x, parameters, y, TransportKind::kInMemoryDelayed);
}

Plan FixedPlan(const FixedCase& c) {
  ConvCase conv;
  const JobParts job = JobOf(c, conv);
  return PlanOf(JobText(job), {{"data", job.batch}}).value();
}

// What the plan moves for the layer "y", with what it moves for every one of its parameters.
std::string RolesOf(const FixedCase& c) {
  const Plan plan = FixedPlan(c);
  std::vector<std::string> roles;
  for (const LayerPlan& layer : plan.program(0).layer()) {
    if (layer.name() != "y") continue;
    for (const OperatorUse& use : layer.op()) roles.push_back(use.role());
  }
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.has_sync() && parameter.name() != "head.weight" && parameter.name() != "head.bias") {
      roles.push_back(absl::StrCat("sync ", parameter.name()));
    }
  }
  return absl::StrJoin(roles, ", ");
}

// Elements of a parameter that all ranks together store.
int64_t Stored(const FixedCase& c, const std::string& name) {
  int64_t stored = 0;
  const Plan plan = FixedPlan(c);
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.name() != name) continue;
    const Layout home = LayoutFromProto(parameter.home()).value();
    for (int rank = 0; rank < c.ranks; ++rank) stored += Product(home.LocalShape(rank));
  }
  return stored;
}

std::vector<int> From(int first, int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

// The example of DistDL's documentation: P_x = 1x4x1, P_w = 3x4x1, P_y = 1x3x1.
TEST(ConvExampleTest, InputWeightAndOutputOnRanksOfTheirOwn) {
  for (const char* home : {"", "home: OWNER", "home: OWNER owner: 7", "home: REPLICATED", "home: SHARDED"}) {
    const FixedCase c{19,
                      {2, 10, 11},
                      7,
                      1,
                      LayoutText("x", {1, 4, 1}, From(0, 4)) + LayoutText("w", {3, 4, 1}, From(4, 12)) +
                          LayoutText("y", {1, 3, 1}, From(16, 3)),
                      absl::StrCat("w: \"w\" y: \"y\" ", home)};
    EXPECT_EQ(CompareFixed(c), "") << home;
  }
}

TEST(ConvExampleTest, WithTheFeaturesCutToo) {
  for (const char* home : {"", "home: OWNER"}) {
    const FixedCase c{38,
                      {2, 10, 11},
                      7,
                      1,
                      LayoutText("x", {1, 4, 2}, From(0, 8)) + LayoutText("w", {3, 4, 2}, From(8, 24)) +
                          LayoutText("y", {1, 3, 2}, From(32, 6)),
                      absl::StrCat("w: \"w\" y: \"y\" ", home)};
    EXPECT_EQ(CompareFixed(c), "") << home;
  }
}

TEST(ConvExampleTest, SharedRanksOfOneMesh) {
  const FixedCase c{12,
                    {2, 10, 11},
                    7,
                    1,
                    LayoutText("x", {1, 4, 1}, {0, 1, 2, 3}) + LayoutText("w", {3, 4, 1}, From(0, 12)) +
                        LayoutText("y", {1, 3, 1}, {0, 4, 8}),
                    "w: \"w\" y: \"y\""};
  EXPECT_EQ(CompareFixed(c), "");
}

TEST(ConvExampleTest, ChannelsOfTheOutputCutAlongAxesThatDoNotCutTheInput) {
  const auto mesh = [](const std::string& name, const std::string& sbp) {
    return absl::StrCat("layout { name: \"", name, "\" mesh { size: 2 } mesh { size: 2 } mesh { size: 2 } sbp: [", sbp,
                        "] }\n");
  };
  for (const char* sbp : {"'S(1)', 'S(2)', 'S(1)'", "'S(1)', 'S(2)', 'B'", "'S(1)', 'S(0)', 'S(1)'"}) {
    for (const char* x : {"'B', 'S(2)', 'B'", "'B', 'S(2)', 'S(1)'"}) {
      const FixedCase c{8, {3, 5, 11}, 7, 1, mesh("x", x) + mesh("y", sbp), "y: \"y\"", 3, true};
      EXPECT_EQ(CompareFixed(c), "") << x << " to " << sbp;
    }
  }
}

TEST(ConvPlanTest, HomesStoreTheSerialNumberOfParametersOrMore) {
  FixedCase c{8, {2, 6, 9}, 4, 1, LayoutText("x", {1, 3, 2}, From(0, 6)), "home: OWNER"};
  const auto counts = [&c](const std::string& home) {
    c.fields = home;
    EXPECT_EQ(CompareFixed(c), "") << home;
    return std::vector<int64_t>{Stored(c, "y.weight"), Stored(c, "y.bias")};
  };
  EXPECT_EQ(counts("home: OWNER"), (std::vector<int64_t>{4 * 6 * 3, 4}));
  EXPECT_EQ(counts("home: SHARDED"), (std::vector<int64_t>{4 * 6 * 3, 4}));
  EXPECT_EQ(counts(""), (std::vector<int64_t>{2 * 4 * 6 * 3, 2 * 4}));
  EXPECT_EQ(counts("home: REPLICATED"), (std::vector<int64_t>{6 * 4 * 6 * 3, 2 * 4}));
}

TEST(ConvPlanTest, NothingMovesThatNeedNot) {
  FixedCase c{2, {2, 6, 9}, 4, 1, LayoutText("x", {1, 1, 2}, From(0, 2)), ""};
  EXPECT_EQ(RolesOf(c), "x, sync y.weight, sync y.bias");  // the halo, and gradients of a weight that both have
  c.kernel = 1;
  EXPECT_EQ(RolesOf(c), "sync y.weight, sync y.bias");
  c.fields = "home: OWNER";
  EXPECT_EQ(RolesOf(c), "weight, bias");
  // Parts of whole groups: each rank has what it needs. Parts of one: the products are summed.
  c = {3, {2, 6, 9}, 12, 6, LayoutText("x", {1, 3, 1}, From(0, 3)), "", 1};
  EXPECT_EQ(RolesOf(c), "");
  c.groups = 3;
  EXPECT_EQ(RolesOf(c), "");
  c.groups = 1;
  EXPECT_EQ(RolesOf(c), "y");
  // Two groups in four parts: pairs of ranks sum.
  c = {4, {2, 8, 9}, 6, 2, LayoutText("x", {1, 4, 1}, From(0, 4)), "", 1};
  EXPECT_EQ(RolesOf(c), "y");
  // A weight cut by its output channels only: no sum; each rank has its part of the output.
  c = {3, {2, 6, 9}, 6, 1, LayoutText("x", {1, 1, 1}, From(0, 1)) + LayoutText("w", {3, 1}, From(0, 3)), "w: \"w\"", 1};
  EXPECT_EQ(RolesOf(c), "x");
}

class ConvLayersTest : public testing::TestWithParam<int> {};

TEST_P(ConvLayersTest, AnyLayoutsEqualSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(CompareConv(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(ConvLayersTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(CompareConv(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

INSTANTIATE_TEST_SUITE_P(SpatialDims, ConvLayersTest, testing::Values(1, 2, 3));

}  // namespace
}  // namespace adjoin
