// Linear layers over weight partitions and batch cuts, ReLU, flatten and repartition equal LibTorch's on one rank.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

constexpr const char* kHomes[] = {"", "home: OWNER", "home: REPLICATED", "home: SHARDED"};

// A layout called `name` of a tensor of two dims with at most `most` parts; with `copies` also some that hold several
// copies of each part. Not for fields: these have partial gradients there, and the comparison is with whole ones.
std::string RandomMatrixLayout(RandomJobs& random, const std::string& name, const std::vector<int64_t>& shape,
                               int64_t most, bool whole_features = false, bool copies = false) {
  const std::vector<int64_t> partition = random.Partition(2, whole_features ? 1 : -1, most);
  if (copies && random.OneIn(2)) {
    const int64_t parts = partition[0] * partition[1];
    return random.MeshLayout(name, shape, partition, random.Between(1, most / parts), most);
  }
  return LayoutText(name, partition, random.Ranks(partition[0] * partition[1], most), random.Cuts(shape, partition));
}

// `w`: parts of the weight; {0, 0}: no w, the batch is cut.
std::string CompareLinear(uint64_t seed, std::pair<int64_t, int64_t> w, TransportKind transport) {
  RandomJobs random(seed);
  const int64_t batch = random.Between(1, 6), in = random.Between(1, 9), out = random.Between(1, 9);
  const int64_t parts = w.first * w.second;
  const bool has_bias = !random.OneIn(4), transposed = random.OneIn(3);
  const std::vector<int64_t> stored = transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in};
  JobParts job;
  job.batch = batch;
  job.ranks = std::min<int64_t>(6, std::max<int64_t>(parts, 1) + random.Between(0, 2));
  job.x_shape = {in};
  const bool before = random.OneIn(3);
  job.layouts = RandomMatrixLayout(random, "x", {batch, in}, job.ranks, /*whole_features=*/parts == 0, before);
  std::string head = "name: \"y\" input: \"x\" x: \"x\"";
  if (before) {
    job.layouts += RandomMatrixLayout(random, "other", {batch, in}, job.ranks);
    job.layers = "layer { name: \"before\" input: \"x\" x: \"other\" activation { fn: \"relu\" } }\n";
    head = "name: \"y\" x: \"x\"";
  }
  if (parts > 0) {
    const std::vector<int64_t> partition =
        transposed ? std::vector<int64_t>{w.second, w.first} : std::vector<int64_t>{w.first, w.second};
    job.layouts += LayoutText("w", partition, random.Ranks(parts, job.ranks), random.Cuts(stored, partition));
    head += " w: \"w\"";
  }
  if (random.OneIn(2)) {
    job.layouts += RandomMatrixLayout(random, "y", {batch, out}, job.ranks, false, /*copies=*/true);
    head += " y: \"y\"";
  }
  job.layers += absl::StrCat("layer { ", head, " ", kHomes[random.Between(0, 3)], " linear { out_features: ", out,
                             " bias: ", has_bias ? "true" : "false", transposed ? " transposed: true" : "", " } }\n");

  torch::Tensor x = random.Normal({batch, in}).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal(stored).requires_grad_()}};
  torch::Tensor bias;
  if (has_bias) bias = parameters["y.bias"] = random.Normal({out}).requires_grad_();
  const torch::Tensor weight = transposed ? parameters["y.weight"].t() : parameters["y.weight"];
  const torch::Tensor y = torch::linear(before ? torch::relu(x) : x, weight, bias);
  return CompareLayer(job, random, x, parameters, y, transport);
}

class LinearLayerTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(LinearLayerTest, EqualsSerial) {
  const uint64_t seed = TestSeed(100);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(CompareLinear(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(LinearLayerTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(700);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(CompareLinear(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

INSTANTIATE_TEST_SUITE_P(WeightParts, LinearLayerTest,
                         testing::Values(std::pair{0, 0}, std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 1},
                                         std::pair{2, 2}, std::pair{3, 2}, std::pair{1, 6}),
                         [](const auto& info) {
                           const auto& w = info.param;
                           return w.first == 0 ? "batch" : absl::StrCat(w.first, "x", w.second);
                         });

// The axes of a mesh, for layouts that share it.
struct SharedMesh {
  std::string axes;              // "mesh { size: 2 } mesh { size: 3 } rank: [...]"
  int64_t parts[3] = {1, 1, 1};  // data, out, in
  std::vector<int> order;        // which of these each axis is

  // `sbp`: what data, out and in do.
  std::string Text(const std::string& name, const std::vector<std::string>& sbp, const std::string& cuts) const {
    std::string text = absl::StrCat("layout { name: \"", name, "\" ", axes);
    for (int axis : order) absl::StrAppend(&text, " sbp: \"", sbp[axis], "\"");
    return text + cuts + " }\n";
  }
};

SharedMesh RandomMesh(RandomJobs& random, int64_t world) {
  SharedMesh mesh;
  mesh.order = random.Ranks(3, 3);
  int64_t most = world;
  for (int axis : mesh.order) {
    mesh.parts[axis] = random.Between(1, most);
    most /= mesh.parts[axis];
    absl::StrAppend(&mesh.axes, " mesh { size: ", mesh.parts[axis], " }");
  }
  const auto ranks = random.Ranks(mesh.parts[0] * mesh.parts[1] * mesh.parts[2], world);
  absl::StrAppend(&mesh.axes, " rank: ", ListText({ranks.begin(), ranks.end()}));
  return mesh;
}

std::string CutText(int dim, const std::vector<int64_t>& sizes) {
  return absl::StrCat(" cut { dim: ", dim, " size: ", ListText(sizes), " }");
}

// One to three leading dims, cut in any way; without w, with any layout of the weight, or with layouts of input, weight
// and output on one mesh, where mostly nothing but the sum moves.
std::string CompareLeadingDims(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  std::vector<int64_t> x_shape(random.Between(2, 4));
  for (int64_t& extent : x_shape) extent = random.Between(1, 4);
  const int features = static_cast<int>(x_shape.size()) - 1;
  const int64_t in = x_shape[features] = random.Between(1, 9), out = random.Between(1, 9);
  std::vector<int64_t> y_shape = x_shape;
  y_shape[features] = out;
  const bool has_bias = !random.OneIn(4), transposed = random.OneIn(3);
  const std::vector<int64_t> stored = transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in};
  JobParts job;
  job.ranks = random.Between(1, 6);
  job.last_dims = features + 1;
  AddRandomInput(random, "x", x_shape, job);
  std::string head = absl::StrCat("name: \"y\" ", kHomes[random.Between(0, 3)]);
  if (random.OneIn(2)) {
    const SharedMesh mesh = RandomMesh(random, job.ranks);
    const int leading = static_cast<int>(random.Between(0, features - 1));
    const std::string data = absl::StrCat("S(", leading, ")"), last = absl::StrCat("S(", features, ")");
    const auto data_sizes = random.Sizes(x_shape[leading], mesh.parts[0]);
    const auto out_sizes = random.Sizes(out, mesh.parts[1]), in_sizes = random.Sizes(in, mesh.parts[2]);
    const std::string data_cut = CutText(leading, data_sizes);
    // On its mesh, but not as the others need it.
    const auto otherwise = [&] {
      std::vector<std::string> sbp;
      for (int i : random.Ranks(3, 3)) sbp.push_back(std::vector<std::string>{data, last, "B"}[i]);
      return sbp;
    };
    job.layouts += random.OneIn(4) ? mesh.Text("shared_x", otherwise(), "")
                                   : mesh.Text("shared_x", {data, "B", last}, data_cut + CutText(features, in_sizes));
    job.layouts += transposed
                       ? mesh.Text("shared_w", {"B", "S(1)", "S(0)"}, CutText(1, out_sizes) + CutText(0, in_sizes))
                       : mesh.Text("shared_w", {"B", "S(0)", "S(1)"}, CutText(0, out_sizes) + CutText(1, in_sizes));
    job.layouts += random.OneIn(4) ? mesh.Text("shared_y", otherwise(), "")
                                   : mesh.Text("shared_y", {data, last, "B"}, data_cut + CutText(features, out_sizes));
    for (const std::string name : {"x", "w", "y"}) {
      if (!random.OneIn(3)) absl::StrAppend(&head, " ", name, ": \"shared_", name, "\"");
    }
  } else {
    if (random.OneIn(2)) {
      job.layouts += random.AnyLayout("w", stored, job.ranks, /*copies=*/true);
      head += " w: \"w\"";
    }
    if (random.OneIn(2)) {
      job.layouts += random.AnyLayout("y", y_shape, job.ranks, /*copies=*/true);
      head += " y: \"y\"";
    }
  }
  absl::StrAppend(&job.layers, "layer { ", head, " linear { out_features: ", out,
                  " bias: ", has_bias ? "true" : "false", transposed ? " transposed: true" : "", " } }\n");
  torch::Tensor x = random.Normal(x_shape).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal(stored).requires_grad_()}};
  torch::Tensor bias;
  if (has_bias) bias = parameters["y.bias"] = random.Normal({out}).requires_grad_();
  const torch::Tensor weight = transposed ? parameters["y.weight"].t() : parameters["y.weight"];
  return CompareLayer(job, random, x, parameters, torch::linear(x, weight, bias), transport);
}

TEST(LinearLeadingDimsTest, EqualsSerial) {
  const uint64_t seed = TestSeed(20000);
  for (uint64_t i = 0; i < 600; ++i) {
    ASSERT_EQ(CompareLeadingDims(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(LinearLeadingDimsTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(30000);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(CompareLeadingDims(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// The operators of layer "y", of a job of 4 ranks in which the layers around it leave [8, 3, 6] in layout `x`.
std::string LinearOperators(const std::string& layouts, const std::string& layer) {
  JobParts job;
  job.ranks = 4;
  job.batch = 8;
  job.x_shape = {3, 6};
  job.last_dims = 3;
  job.layouts = layouts;
  job.layers = absl::StrCat("layer { name: \"before\" input: \"x\" x: \"x\" activation { fn: \"relu\" } }\n",
                            "layer { name: \"y\" ", layer, " linear { out_features: 4 } }\n");
  auto plan = PlanOf(JobText(job), {{"data", 8}});
  if (!plan.ok()) return plan.status().ToString();
  std::string names;
  for (const OperatorPlan& op : plan->program(0).op()) {
    if (op.name().rfind("y.", 0) == 0) absl::StrAppend(&names, op.name(), " ");
  }
  return names;
}

// Nothing moves to the input where it is cut as the weight's columns, nothing from the output where it is cut as its
// rows, neither where the batch is cut by the weight's copies.
TEST(LinearPlanTest, RowAndColumnParallelLayersMoveNothingMore) {
  EXPECT_EQ(
      LinearOperators(LayoutText("x", {1, 1, 4}, {0, 1, 2, 3}) + LayoutText("w", {1, 4}, {0, 1, 2, 3}), "w: \"w\""),
      "y.y ");
  const std::string whole = "layout { name: \"x\" mesh { size: 4 } sbp: \"B\" }\n";
  EXPECT_EQ(LinearOperators(whole + LayoutText("w", {4, 1}, {0, 1, 2, 3}) + LayoutText("y", {1, 1, 4}, {0, 1, 2, 3}),
                            "w: \"w\" y: \"y\""),
            "");
  // The same without w: the weight follows from the input and the output.
  EXPECT_EQ(LinearOperators(LayoutText("x", {1, 1, 4}, {0, 1, 2, 3}), ""), "y.y ");
  EXPECT_EQ(LinearOperators(whole + "layout { name: \"y\" mesh { size: 4 } sbp: \"S(2)\" }\n", "y: \"y\""), "");
  // Two samples' halves, each by two columns.
  EXPECT_EQ(LinearOperators(LayoutText("x", {2, 1, 2}, {0, 1, 2, 3}) +
                                "layout { name: \"w\" mesh { size: 2 } mesh { size: 2 } sbp: [\"B\", \"S(1)\"] }\n",
                            "w: \"w\""),
            "y.y ");
  EXPECT_EQ(LinearOperators(LayoutText("x", {4, 1, 1}, {0, 1, 2, 3}), ""), "");
}

// A chain of repartitions and ReLUs over any layouts, then a flatten where the batch or the channels are cut.
std::string CompareChain(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape = {random.Between(1, 5), random.Between(1, 5), random.Between(1, 4),
                                      random.Between(1, 4)};
  JobParts job;
  job.batch = shape[0];
  job.ranks = random.Between(1, 6);
  job.x_shape.assign(shape.begin() + 1, shape.end());
  const auto add_layout = [&](const std::string& name, const std::vector<int64_t>& partition, bool copies) {
    int64_t parts = 1;
    for (int64_t p : partition) parts *= p;
    if (copies && random.OneIn(2)) {
      job.layouts += random.MeshLayout(name, shape, partition, random.Between(1, job.ranks / parts), job.ranks);
      return;
    }
    job.layouts += LayoutText(name, partition, random.Ranks(parts, job.ranks), random.Cuts(shape, partition));
  };
  add_layout("p0", random.Partition(4, -1, job.ranks), /*copies=*/false);
  add_layout("p1", random.Partition(4, -1, job.ranks), /*copies=*/true);
  const int64_t batch_parts = random.Between(1, job.ranks);
  add_layout("p2", {batch_parts, random.Between(1, job.ranks / batch_parts), 1, 1}, /*copies=*/true);
  job.layers =
      "layer { name: \"r0\" input: \"x\" x: \"p0\" y: \"p1\" repartition {} }\n"
      "layer { name: \"a0\" activation { fn: \"relu\" } }\n"
      "layer { name: \"r1\" y: \"p2\" repartition {} }\n"
      "layer { name: \"y\" flatten { arg: 1 } }\n";
  torch::Tensor x = random.Normal(shape).requires_grad_();
  return CompareLayer(job, random, x, {}, torch::flatten(torch::relu(x), 1), transport);
}

TEST(ShapeLayersTest, ChainsEqualSerial) {
  const uint64_t seed = TestSeed(300);
  for (uint64_t i = 0; i < 400; ++i) {
    ASSERT_EQ(CompareChain(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// Cross-entropy of a prediction in any layout.
std::string CompareLoss(uint64_t seed, const std::string& reduction) {
  RandomJobs random(seed);
  const int64_t batch = random.Between(1, 7), classes = random.Between(1, 5), ranks = random.Between(1, 6);
  std::string spec = absl::StrCat(
      "name: \"case\" kind: TRAIN ranks: ", ranks, " seed: 1 precision { compute: \"float64\" }\n",
      RandomMatrixLayout(random, "a", {batch, 4}, ranks, /*whole_features=*/true),
      RandomMatrixLayout(random, "b", {batch, classes}, ranks, false, /*copies=*/true),
      "layer { name: \"y\" input: \"x\" x: \"a\" y: \"b\" linear { out_features: ", classes, " } }\n",
      "loss { kind: \"cross_entropy\" input: \"y\" target: \"label\" weight: 0.75 reduction: \"", reduction, "\" }\n",
      "dataset { name: \"data\" field { name: \"x\" shape: [4] idx { path: \"x\" } }"
      " field { name: \"label\" dtype: \"int64\" idx { path: \"label\" } } }\n"
      "train { dataset: \"data\" batch: ",
      batch, " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
  auto plan = PlanOf(spec, {{"data", batch}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  MakeFieldsDifferentiable(*plan, "train");

  torch::Tensor x = random.Normal({batch, 4}).requires_grad_();
  Tensors parameters = {{"y.weight", random.Normal({classes, 4}).requires_grad_()},
                        {"y.bias", random.Normal({classes}).requires_grad_()}};
  const torch::Tensor y = torch::linear(x, parameters["y.weight"], parameters["y.bias"]);
  const torch::Tensor label = random.Labels(batch, classes);
  torch::nn::functional::CrossEntropyFuncOptions options;
  if (reduction == "sum") options.reduction(torch::kSum);
  const torch::Tensor loss = 0.75 * torch::nn::functional::cross_entropy(y, label, options);
  loss.backward();
  StepInput input;
  input.fields = {{"x", x.detach()}, {"label", label}};
  input.seed = seed;
  Expected expected;
  expected.field_grads = {{"x", x.grad()}};
  for (const auto& [name, parameter] : parameters) {
    input.parameters[name] = parameter.detach();
    expected.parameter_grads[name] = parameter.grad();
  }
  auto result = RunStep(*plan, input);
  if (!result.ok()) return absl::StrCat(result.status().ToString(), "\n", spec);
  std::string differences = Differences(*plan, "train", *result, expected, 1e-10);
  for (const RankResult& rank : *result) {
    if (!(std::abs(rank.loss - loss.item<double>()) <= 1e-10)) absl::StrAppend(&differences, "loss ", rank.loss, "\n");
  }
  return differences.empty() ? "" : absl::StrCat(differences, spec);
}

TEST(LossTest, CrossEntropyOfAnyLayoutEqualsSerial) {
  const uint64_t seed = TestSeed(400);
  for (uint64_t i = 0; i < 400; ++i) {
    ASSERT_EQ(CompareLoss(seed + i, i % 3 == 0 ? "sum" : "mean"), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

}  // namespace
}  // namespace adjoin
