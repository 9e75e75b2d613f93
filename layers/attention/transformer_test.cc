// Transformer blocks in any layout, with the heads and the MLP's features cut or not, equal LibTorch's
// TransformerEncoderLayer, and the same with the norms first, on one rank.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "primitives/geometry/box.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

struct Case {
  std::vector<int64_t> shape;  // [batch, length, features]
  int64_t heads = 1, hidden = 1;
  bool norm_first = true, causal = false, gelu = true;
  JobParts job;
  Tensors parameters;

  Tensor P(const std::string& name) const { return parameters.at("y." + name); }
};

Tensor Norm(const Case& c, const std::string& name, const Tensor& x) {
  return torch::layer_norm(x, {c.shape[2]}, c.P(name + ".weight"), c.P(name + ".bias"), 1e-5);
}

Tensor Attend(const Case& c, const Tensor& x) {
  const int64_t batch = c.shape[0], length = c.shape[1], features = c.shape[2], width = features / c.heads;
  const Tensor qkv = torch::linear(x, c.P("self_attn.in_proj_weight"), c.P("self_attn.in_proj_bias"))
                         .reshape({batch, length, 3, c.heads, width})
                         .permute({2, 0, 3, 1, 4});
  Tensor scores = torch::matmul(qkv[0], qkv[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(width));
  if (c.causal) {
    const Tensor later = torch::ones({length, length}, torch::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  const Tensor values = torch::matmul(torch::softmax(scores, -1), qkv[2]).transpose(1, 2).reshape(c.shape);
  return torch::linear(values, c.P("self_attn.out_proj.weight"), c.P("self_attn.out_proj.bias"));
}

Tensor Mlp(const Case& c, const Tensor& x) {
  const Tensor hidden = torch::linear(x, c.P("linear1.weight"), c.P("linear1.bias"));
  return torch::linear(c.gelu ? torch::gelu(hidden) : torch::relu(hidden), c.P("linear2.weight"), c.P("linear2.bias"));
}

Tensor Serial(const Case& c, const Tensor& input) {
  if (c.norm_first) {
    const Tensor x = input + Attend(c, Norm(c, "norm1", input));
    return x + Mlp(c, Norm(c, "norm2", x));
  }
  const Tensor x = Norm(c, "norm1", input + Attend(c, input));
  return Norm(c, "norm2", x + Mlp(c, x));
}

Case RandomCase(RandomJobs& random) {
  const std::vector<std::string> homes = {"", " home: OWNER", " home: REPLICATED", " home: SHARDED"};
  Case c;
  c.heads = random.Between(1, 4);
  c.shape = {random.Between(1, 3), random.Between(1, 6), c.heads * random.Between(1, 3)};
  c.hidden = random.Between(1, 9);
  c.norm_first = random.OneIn(2);
  c.causal = random.OneIn(3);
  c.gelu = !random.OneIn(3);
  c.job.ranks = random.Between(1, 6);
  c.job.last_dims = 3;
  AddRandomInput(random, "x", c.shape, c.job);
  std::string head = random.Of(homes);
  if (random.OneIn(2)) {
    const std::vector<int64_t> partition = random.Partition(3, -1, c.job.ranks);
    if (random.OneIn(2)) {
      c.job.layouts +=
          LayoutText("w", partition, random.Ranks(VolumeOf(partition), c.job.ranks), random.Cuts(c.shape, partition));
    } else {
      const int64_t copies = random.Between(1, c.job.ranks / VolumeOf(partition));
      absl::StrAppend(&c.job.layouts, "layout { name: \"w\" mesh { size: ", copies, " } sbp: \"B\"");
      for (int dim = 0; dim < 3; ++dim) {
        absl::StrAppend(&c.job.layouts, " mesh { size: ", partition[dim], " } sbp: \"S(", dim, ")\"");
      }
      const auto ranks = random.Ranks(copies * VolumeOf(partition), c.job.ranks);
      absl::StrAppend(&c.job.layouts, " rank: ", ListText({ranks.begin(), ranks.end()}), " }\n");
    }
    head += " w: \"w\"";
  }
  for (const std::string name : {"x", "y"}) {
    if (!random.OneIn(3)) continue;
    c.job.layouts += random.AnyLayout("of_" + name, c.shape, c.job.ranks, /*copies=*/true);
    absl::StrAppend(&head, " ", name, ": \"of_", name, "\"");
  }
  if (random.OneIn(4)) head += " recompute: true";
  absl::StrAppend(&c.job.layers, "layer { name: \"y\"", head, " transformer { heads: ", c.heads, " hidden: ", c.hidden,
                  c.norm_first ? "" : " norm_first: false", c.causal ? " causal: true" : "",
                  c.gelu ? "" : " activation: \"relu\"", " } }\n");
  const int64_t features = c.shape[2];
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    c.parameters["y." + name] = (random.Normal(shape) * 0.5).requires_grad_();
  };
  add("self_attn.in_proj_weight", {3 * features, features});
  add("self_attn.in_proj_bias", {3 * features});
  add("self_attn.out_proj.weight", {features, features});
  add("self_attn.out_proj.bias", {features});
  add("linear1.weight", {c.hidden, features});
  add("linear1.bias", {c.hidden});
  add("linear2.weight", {features, c.hidden});
  add("linear2.bias", {features});
  for (const std::string norm : {"norm1", "norm2"}) {
    add(norm + ".weight", {features});
    add(norm + ".bias", {features});
  }
  return c;
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  Case c = RandomCase(random);
  const Tensor x = random.Normal(c.shape).requires_grad_();
  return CompareLayer(c.job, random, x, c.parameters, Serial(c, x), transport);
}

TEST(TransformerTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 120; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(TransformerTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// What the cases above are compared with is LibTorch's own layer, whose parameters have the names of the block's.
TEST(TransformerTest, TheSerialBlockIsLibTorchs) {
  RandomJobs random(7);
  Case c = RandomCase(random);
  c.norm_first = c.causal = false;
  c.gelu = true;
  auto options = nn::TransformerEncoderLayerOptions(c.shape[2], c.heads).dim_feedforward(c.hidden).dropout(0);
  nn::TransformerEncoderLayer layer(options.activation(torch::kGELU));
  layer->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  size_t found = 0;
  for (auto& entry : layer->named_parameters()) {
    ASSERT_EQ(c.parameters.count("y." + entry.key()), 1u) << entry.key();
    entry.value().copy_(c.P(entry.key()));
    ++found;
  }
  EXPECT_EQ(found, c.parameters.size());
  const Tensor x = random.Normal(c.shape);
  const Tensor y = layer->forward(x.transpose(0, 1)).transpose(0, 1);
  EXPECT_TRUE(torch::allclose(Serial(c, x), y, 1e-11, 1e-11));
}

// Megatron's cut: nothing but the two sums moves.
TEST(TransformerTest, ColumnsThenRowsMoveTwoSums) {
  JobParts job;
  job.ranks = 4;
  job.batch = 4;
  job.x_shape = {6, 8};
  job.last_dims = 3;
  job.layouts =
      "layout { name: \"x\" mesh { size: 2 } mesh { size: 2 } sbp: [\"S(0)\", \"B\"] }\n"
      "layout { name: \"w\" mesh { size: 2 } mesh { size: 2 } sbp: [\"S(0)\", \"S(2)\"] }\n";
  job.layers =
      "layer { name: \"before\" input: \"x\" x: \"x\" activation { fn: \"relu\" } }\n"
      "layer { name: \"y\" x: \"x\" w: \"w\" transformer { heads: 4 hidden: 16 } }\n";
  auto plan = PlanOf(JobText(job), {{"data", 4}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string names;
  for (const OperatorPlan& op : plan->program(0).op()) {
    int64_t bytes = 0;
    for (int64_t of_rank : op.bytes_forward()) bytes += of_rank;
    if (op.name().rfind("y", 0) == 0 && bytes > 0) absl::StrAppend(&names, op.name(), " ");
  }
  EXPECT_EQ(names, "y.self_attn.y y.linear2.y ");
  EXPECT_EQ(plan->spec().layer(1).name(), "y");
  EXPECT_TRUE(plan->spec().layer(1).has_transformer()) << "the plan's spec is the user's";
}

TEST(TransformerTest, ErrorsAreOfTheBlock) {
  JobParts job;
  job.ranks = 1;
  job.batch = 2;
  job.x_shape = {6, 8};
  job.last_dims = 3;
  job.layers = "layer { name: \"y\" input: \"x\" transformer { heads: 3 hidden: 16 } }\n";
  const auto plan = PlanOf(JobText(job), {{"data", 2}});
  EXPECT_NE(std::string(plan.status().message()).find(": layer 0 \"y\": its layer \"y.self_attn\": "),
            std::string::npos)
      << plan.status();
}

}  // namespace
}  // namespace adjoin
