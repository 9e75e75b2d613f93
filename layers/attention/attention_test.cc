// Attention over any cut of batch, sequence and heads equals plain softmax(Q K^T) V on one rank, and so torch.nn's
// MultiheadAttention, and without projections scaled_dot_product_attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/types.h>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/random/philox.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/placed_output.h"
#include "tests/vs_serial/random_jobs.h"
#include "tests/vs_serial/second_derivative.h"

namespace adjoin {
namespace {

using torch::Tensor;

struct Case {
  // Shapes. Memory: empty for attention on itself. Values: empty where they are made of what the keys are made of.
  std::vector<int64_t> x, memory, values = {};
  int64_t heads = 1;
  bool causal = false, bias = true, projections = true;
  double dropout = 0;
  std::optional<double> scale = std::nullopt;
  std::vector<int64_t> score_bias = {};  // its shape; empty: none
  bool turned = false;                   // the field has [heads, 1, ...] of the bias, which has [1, heads, ...]
  JobParts job;

  int64_t features() const { return x[2]; }
  const std::vector<int64_t>& keys() const { return memory.empty() ? x : memory; }
  int64_t value_features() const { return values.empty() ? keys()[2] : values[2]; }
  bool one_weight() const { return keys()[2] == features() && value_features() == features(); }
};

// 1 / (1 - p) or 0 by global positions, one at a time. Layer `index` of the first step of a job of seed 1.
Tensor Factors(const Case& c, int index) {
  const std::vector<int64_t> shape = {c.x[0], c.heads, c.x[1], c.keys()[1]};
  const Tensor factors = torch::zeros(shape, torch::kFloat64);
  const RandomStream stream(1, kPurposeDropout, index);
  for (int64_t i = 0; i < factors.numel(); ++i) {
    if (stream.UniformAt(i) >= c.dropout) factors.data_ptr<double>()[i] = 1 / (1 - c.dropout);
  }
  return factors;
}

Tensor Heads(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t heads) {
  const Tensor y = torch::linear(x, weight, bias);
  return y.reshape({y.size(0), y.size(1), heads, y.size(2) / heads}).transpose(1, 2);
}

// softmax(scores), but 0 in a row of nothing but minus infinity.
Tensor Shares(const Tensor& scores) {
  const Tensor largest = scores.detach().amax(-1, /*keepdim=*/true);
  const Tensor exponentials = (scores - largest.masked_fill(largest.isinf(), 0)).exp();
  const Tensor sum = exponentials.sum(-1, /*keepdim=*/true);
  return exponentials / torch::where(sum == 0, torch::ones_like(sum), sum);
}

// [batch, length, heads * width] of each.
Tensor AttendWith(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& score_bias,
                  const Tensor& factors) {
  const auto width = static_cast<double>(q.size(3));
  Tensor scores = torch::einsum("bhqd,bhkd->bhqk", {q, k}) * c.scale.value_or(1 / std::sqrt(width));
  if (score_bias.defined()) scores = scores + score_bias;
  if (c.causal) {
    const Tensor after = torch::ones({q.size(2), k.size(2)}, torch::kBool).triu(1);
    scores = scores.masked_fill(after, -std::numeric_limits<double>::infinity());
  }
  Tensor weights = Shares(scores);
  if (factors.defined()) weights = weights * factors;
  return torch::matmul(weights, v).transpose(1, 2).reshape({c.x[0], c.x[1], c.heads * v.size(3)});
}

Tensor Split(const Tensor& x, int64_t heads) {
  return torch::stack(x.chunk(heads, 2), 1);  // [batch, heads, length, width]
}

// Keys are made of `memory`, values of `valued`.
Tensor Serial(const Case& c, const Tensor& x, const Tensor& memory, const Tensor& valued, Tensors& p,
              const Tensor& factors, const Tensor& score_bias = {}) {
  if (!c.projections) {
    return AttendWith(c, Split(x, c.heads), Split(memory, c.heads), Split(valued, c.heads), score_bias, factors);
  }
  const int64_t e = c.features();
  const bool own = c.one_weight();
  const auto weight = [&](int i) {
    return own ? p["y.in_proj_weight"].narrow(0, i * e, e)
               : p[i == 0   ? "y.q_proj_weight"
                   : i == 1 ? "y.k_proj_weight"
                            : "y.v_proj_weight"];
  };
  const auto bias = [&](int i) { return c.bias ? p["y.in_proj_bias"].narrow(0, i * e, e) : Tensor(); };
  const Tensor q = Heads(x, weight(0), bias(0), c.heads), k = Heads(memory, weight(1), bias(1), c.heads);
  const Tensor v = Heads(valued, weight(2), bias(2), c.heads);
  const Tensor y = AttendWith(c, q, k, v, score_bias, factors);
  return torch::linear(y, p["y.out_proj.weight"], c.bias ? p["y.out_proj.bias"] : Tensor());
}

// Numbers of heads as numbers of features, in the cut of dim 2 of a layout's text.
std::string InFeatures(const std::string& layout, int64_t width) {
  const std::string mark = "cut { dim: 2 size: [";
  const size_t begin = layout.find(mark);
  if (begin == std::string::npos) return layout;
  const size_t first = begin + mark.size(), end = layout.find(']', first);
  std::vector<int64_t> sizes;
  for (const auto& text : absl::StrSplit(layout.substr(first, end - first), ", ")) {
    int64_t size = 0;
    EXPECT_TRUE(absl::SimpleAtoi(text, &size));
    sizes.push_back(size * width);
  }
  return absl::StrCat(layout.substr(0, first), absl::StrJoin(sizes, ", "), layout.substr(end));
}

// The bias of the scores, with 1 in some dims.
void AddScoreBias(RandomJobs& random, Case& c) {
  c.score_bias = {c.x[0], c.heads, c.x[1], c.keys()[1]};
  for (int dim = 1; dim < 4; ++dim) {
    if (random.OneIn(3)) c.score_bias[dim] = 1;
  }
  // All fields have the batch; a bias without it is one whose batch became its heads.
  c.turned = c.heads == c.x[0] && random.OneIn(2);
  if (c.turned) c.score_bias = {1, c.heads, c.score_bias[2], c.score_bias[3]};
  std::vector<int64_t> field = c.score_bias;
  if (c.turned) std::swap(field[0], field[1]);
  AddRandomInput(random, "b", field, c.job);
  if (c.turned) c.job.layers += "layer { name: \"turned\" input: \"in_b\" permute { arg: [1, 0, 2, 3] } }\n";
}

// Normal numbers, some of which are minus infinity, and some rows, as the field has them.
Tensor RandomScoreBias(RandomJobs& random, const Case& c) {
  const double masked = -std::numeric_limits<double>::infinity();
  std::vector<int64_t> rows = c.score_bias;
  rows[3] = 1;
  Tensor bias = random.Normal(c.score_bias);
  if (random.OneIn(2)) bias = bias.masked_fill(random.Normal(c.score_bias) > 0.7, masked);
  if (random.OneIn(3)) bias = bias.masked_fill(random.Normal(rows) > 1, masked);
  return (c.turned ? bias.transpose(0, 1) : bias).contiguous().requires_grad_();
}

Case RandomCase(RandomJobs& random, bool long_sequence) {
  Case c;
  c.heads = random.Between(1, 4);
  c.projections = !random.OneIn(3);
  const int64_t width = random.Between(1, 3);
  const int64_t longest = long_sequence ? 300 : 9;
  c.x = {random.Between(1, 3), random.Between(1, longest), c.heads * width};
  const auto features = [&](int64_t without_projections) {
    if (random.OneIn(2)) return c.x[2];
    return c.projections ? random.Between(1, 5) : without_projections;
  };
  if (!random.OneIn(c.projections ? 2 : 4)) c.memory = {c.x[0], random.Between(1, longest), features(c.x[2])};
  if (!c.memory.empty() && !random.OneIn(c.projections ? 2 : 4)) {
    c.values = {c.x[0], c.memory[1], features(c.heads * random.Between(1, 4))};
  }
  c.causal = random.OneIn(3);
  c.bias = !random.OneIn(4);
  c.dropout = random.OneIn(3) ? 0.3 : 0;
  if (random.OneIn(3)) c.scale = random.Of<double>({0.1, 1, -0.4});
  c.job.ranks = random.Between(1, 6);
  c.job.last_dims = 3;
  AddRandomInput(random, "x", c.x, c.job);
  if (!c.memory.empty()) AddRandomInput(random, "m", c.memory, c.job);
  if (!c.values.empty()) AddRandomInput(random, "v", c.values, c.job);
  if (random.OneIn(3)) AddScoreBias(random, c);
  // A plan has the movements of a gradient where something is trained.
  if (!c.projections) {
    c.job.layers += "layer { name: \"learned\" input: \"in_x\" parameter { shape: [1] combine: \"multiply\" } }\n";
  }
  std::string more;
  if (random.OneIn(2)) {
    // Between heads, or anywhere.
    c.job.layouts += random.OneIn(2)
                         ? random.AnyLayout("w", c.x, c.job.ranks, /*copies=*/true)
                         : InFeatures(random.AnyLayout("w", {c.x[0], c.x[1], c.heads}, c.job.ranks, true), width);
    more += " w: \"w\"";
  }
  if (random.OneIn(3)) {
    const int64_t result = c.projections ? c.x[2] : c.value_features();
    c.job.layouts += random.AnyLayout("y", {c.x[0], c.x[1], result}, c.job.ranks, /*copies=*/true);
    more += " y: \"y\"";
  }
  if (c.projections && random.OneIn(3))
    more += random.Of<std::string>(
        {" home: REPLICATED", " home: SHARDED", " home: OWNER", absl::StrCat(" home: OWNER owner: ", c.job.ranks - 1)});
  if (random.OneIn(4)) more += " recompute: true";
  absl::StrAppend(&c.job.layers, "layer { name: \"y\" input: \"", c.projections ? "in_x" : "learned", "\"",
                  c.memory.empty() ? "" : " input: \"in_m\"", c.values.empty() ? "" : " input: \"in_v\"",
                  c.score_bias.empty() ? "" : absl::StrCat(" input: \"", c.turned ? "turned" : "in_b", "\""), more,
                  " attention { heads: ", c.heads, c.causal ? " causal: true" : "",
                  c.projections ? (c.bias ? "" : " bias: false") : " projections: false",
                  c.scale.has_value() ? absl::StrCat(" scale: ", *c.scale) : "",
                  c.score_bias.empty() ? "" : " score_bias: true",
                  c.dropout > 0 ? absl::StrCat(" dropout: ", c.dropout) : "", " } }\n");
  return c;
}

std::string Compare(uint64_t seed, TransportKind transport, bool long_sequence = false) {
  RandomJobs random(seed);
  const Case c = RandomCase(random, long_sequence);
  Tensors fields = {{"x", (random.Normal(c.x) * 2).requires_grad_()}};
  if (!c.memory.empty()) fields["m"] = random.Normal(c.memory).requires_grad_();
  if (!c.values.empty()) fields["v"] = random.Normal(c.values).requires_grad_();
  if (!c.score_bias.empty()) fields["b"] = RandomScoreBias(random, c);
  Tensors p;
  const int64_t e = c.features();
  const auto parameter = [&](const std::string& name, const std::vector<int64_t>& shape) {
    if (c.projections) p["y." + name] = random.Normal(shape).requires_grad_();
  };
  if (c.one_weight()) {
    parameter("in_proj_weight", {3 * e, e});
  } else {
    parameter("q_proj_weight", {e, e});
    parameter("k_proj_weight", {e, c.keys()[2]});
    parameter("v_proj_weight", {e, c.value_features()});
  }
  if (c.bias) parameter("in_proj_bias", {3 * e});
  parameter("out_proj.weight", {e, e});
  if (c.bias) parameter("out_proj.bias", {e});
  // Before the attention there is a layer for each input.
  if (!c.projections) p["learned.weight"] = random.Normal({1}).requires_grad_();
  const int before = static_cast<int>(fields.size()) + (c.turned ? 1 : 0) + (c.projections ? 0 : 1);
  const Tensor factors = c.dropout > 0 ? Factors(c, before) : Tensor();
  const Tensor x = c.projections ? fields["x"] : fields["x"] * p["learned.weight"];
  const Tensor memory = c.memory.empty() ? x : fields["m"];
  const Tensor score_bias = c.score_bias.empty() ? Tensor() : c.turned ? fields["b"].transpose(0, 1) : fields["b"];
  const Tensor y = Serial(c, x, memory, c.values.empty() ? memory : fields["v"], p, factors, score_bias);
  return CompareLayer(c.job, random, fields, p, {{"y", y}}, transport);
}

TEST(AttentionTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 250; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(AttentionTest, SequencesOfSeveralTiles) {
  const uint64_t seed = TestSeed(5000);
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed, true), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(AttentionTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 12; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory, i % 4 == 0), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// Whole numbers have no gradient: here the positions of a maximum over single cells, 0 ... 15 for the scores of 4 by 4.
TEST(AttentionTest, ABiasOfWholeNumbers) {
  RandomJobs random(21);
  Case c;
  c.x = {2, 4, 4};
  c.heads = 2;
  c.projections = false;
  c.job.ranks = 4;
  c.job.batch = 2;
  c.job.x_shape = {4, 4};
  c.job.last_dims = 3;
  c.job.layouts = LayoutText("x", {1, 2, 2}, {2, 1, 0, 3}, {});
  c.job.layers =
      "layer { name: \"read\" input: \"x\" x: \"x\" parameter { shape: [1] combine: \"multiply\" } }\n"
      "layer { name: \"image\" reshape { arg: [1, 4, 4] } }\n"
      "layer { name: \"places\" pool { mode: \"max\" return_indices: true window { kernel: 1 } } }\n"
      "layer { name: \"y\" input: \"read\" input: \"places\" attention { heads: 2 projections: false"
      " score_bias: true scale: 0.5 } }\n";
  c.scale = 0.5;
  const Tensor x = random.Normal(c.x).requires_grad_();
  Tensors p = {{"read.weight", random.Normal({1}).requires_grad_()}};
  const Tensor read = x * p["read.weight"];
  const Tensor y = Serial(c, read, read, read, p, Tensor(), torch::arange(16).reshape({1, 1, 4, 4}));
  EXPECT_EQ(CompareLayer(c.job, random, x, p, y, TransportKind::kInMemoryDelayed), "");
}

std::string RefusalOf(const std::string& inputs, const std::string& attention) {
  JobParts job;
  job.ranks = 1;
  job.batch = 2;
  job.x_shape = {3, 4};
  job.last_dims = 3;
  job.layers = absl::StrCat(
      "layer { name: \"wide\" input: \"x\" linear { out_features: 6 } }\n"
      "layer { name: \"image\" input: \"x\" reshape { arg: [1, 3, 4] } }\n"
      "layer { name: \"y\" ",
      inputs, " attention { heads: 4 ", attention, " } }\n");
  const auto plan = PlanOf(JobText(job), {{"data", job.batch}});
  return plan.ok() ? "" : std::string(plan.status().message());
}

TEST(AttentionTest, RefusesWhatDoesNotFit) {
  const std::string x = "input: \"x\" ", wide = "input: \"wide\" ", image = "input: \"image\" ";
  const auto refuses = [](const std::string& inputs, const std::string& attention, const std::string& text) {
    EXPECT_THAT(RefusalOf(inputs, attention), testing::HasSubstr(text)) << inputs << attention;
  };
  refuses(x, "score_bias: true", "the last input is what is added to the scores");
  refuses(x + x, "score_bias: true", "the bias of the scores is 2x3x4");
  refuses(x + image, "score_bias: true", "it must be [batch, heads, queries, keys], 2x4x3x3");
  refuses(x + x + x + x, "", "and with score_bias one more; 4 are named");
  refuses(x, "scale: inf", "attention.scale is inf");
  refuses(x, "projections: false bias: true", "attention.bias is of projections");
  refuses("home: SHARDED " + x, "projections: false", "home");
  refuses(x + wide, "projections: false", "the keys have 6 features, but the queries 4");
  refuses(x + x + wide, "projections: false", "the values have 6 features, which 4 heads cannot share evenly");
}

// Attention on itself of 3 sequences of 5 elements with 4 features in 2 heads; rank 3 has no part of it.
JobParts SmallJob(const std::vector<int64_t>& partition) {
  JobParts job;
  job.ranks = 5;
  job.batch = 3;
  job.x_shape = {5, 4};
  job.last_dims = 3;
  job.layouts = LayoutText("x", partition, {4, 1, 0, 2}, {});
  job.layers = "layer { name: \"y\" input: \"x\" x: \"x\" attention { heads: 2 causal: true } }\n";
  return job;
}

TEST(AttentionTest, TwiceDifferentiableWhereTheSequenceIsWhole) {
  RandomJobs random(11);
  auto plan = PlanOf(JobText(SmallJob({2, 1, 2})), {{"data", 3}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  MakeFieldsDifferentiable(*plan, "train");
  Case c;
  c.x = {3, 5, 4};
  c.heads = 2;
  c.causal = true;
  Tensors p = {{"y.in_proj_weight", random.Normal({12, 4})},
               {"y.in_proj_bias", random.Normal({12})},
               {"y.out_proj.weight", random.Normal({4, 4})},
               {"y.out_proj.bias", random.Normal({4})}};
  const Tensor x = random.Normal(c.x).requires_grad_();
  const TwiceInput input{x.detach(), random.Normal(c.x), random.Normal(c.x), p};
  const Tensor y = Serial(c, x, x, x, p, Tensor());
  const Tensor once = torch::autograd::grad({y}, {x}, {input.u}, true, /*create_graph=*/true)[0];
  const Tensor twice = torch::autograd::grad({(once * input.v).sum()}, {x})[0];
  const auto results = SecondDerivative(*plan, input, 11);
  ASSERT_TRUE(results.ok()) << results.status();
  const Layout layout = *LayoutFromProto(plan->program(0).value(0).layout());
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_TRUE(torch::allclose((*results)[rank], PartOf(twice, layout, rank), 1e-10, 1e-10)) << "rank " << rank;
  }
}

TEST(AttentionTest, ASecondDerivativeOfACutSequenceIsRefused) {
  RandomJobs random(12);
  auto plan = PlanOf(JobText(SmallJob({1, 4, 1})), {{"data", 3}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  MakeFieldsDifferentiable(*plan, "train");
  const auto results =
      SecondDerivative(*plan, {random.Normal({3, 5, 4}), random.Normal({3, 5, 4}), random.Normal({3, 5, 4})}, 12);
  EXPECT_THAT(results.status().ToString(),
              testing::HasSubstr("over a sequence that is cut cannot be differentiated twice"));
}

// The layer's dropout on any ranks and in any micro-batches is that of one rank and the whole batch.
TEST(AttentionTest, DropoutBelongsToGlobalPositions) {
  constexpr int64_t kBatch = 4, kStep = 3;
  const Tensor x = RandomJobs(13).Normal({kBatch, 6, 4});
  const std::vector<std::vector<int64_t>> partitions = {{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 2, 2}, {1, 3, 2}};
  for (const std::string op :
       {"attention { heads: 2 dropout: 0.3 }", "window_attention { heads: 2 window: 4 shift: 1 dropout: 0.3 }"}) {
    Tensor expected;
    for (const std::vector<int64_t>& partition : partitions) {
      for (const int64_t micro : {1, 2, 4}) {
        JobParts job = SmallJob(partition);
        job.ranks = partition[1] * partition[2];
        job.batch = kBatch / micro;
        job.x_shape = {6, 4};
        std::vector<int> ranks(job.ranks);
        for (int64_t rank = 0; rank < job.ranks; ++rank) ranks[rank] = static_cast<int>(job.ranks - 1 - rank);
        job.layouts = LayoutText("x", partition, ranks, {});
        job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", op, " }\n");
        const auto plan = PlanOf(JobText(job), {{"data", kBatch}});
        ASSERT_TRUE(plan.ok()) << plan.status();
        std::vector<Tensor> parts;
        for (int64_t first = 0; first < kBatch; first += job.batch) {
          const auto y = OutputAt({kStep, first}, *plan, "train", x.narrow(0, first, job.batch));
          ASSERT_TRUE(y.ok()) << y.status();
          parts.push_back(*y);
        }
        const Tensor whole = torch::cat(parts);
        if (!expected.defined()) expected = whole;
        EXPECT_TRUE(torch::allclose(whole, expected, 1e-12, 1e-12))
            << op << ", " << absl::StrJoin(partition, "x") << ", " << micro << " micro-batches";
      }
    }
  }
}

// What the others are compared with is torch.nn.MultiheadAttention.
TEST(AttentionTest, TheFormulaIsThatOfTheModule) {
  RandomJobs random(1);
  // In C++ the module takes keys and values of one shape only; in Python it has the same formula for others.
  for (const int64_t from : {6, 4}) {
    torch::nn::MultiheadAttention module(torch::nn::MultiheadAttentionOptions(6, 3).kdim(from).vdim(from));
    module->to(torch::kFloat64);
    Tensors p;
    for (const auto& entry : module->named_parameters()) {
      torch::NoGradGuard no_grad;
      entry.value().copy_(random.Normal(entry.value().sizes().vec()));
      p["y." + entry.key()] = entry.value();
    }
    Case c;
    c.x = {2, 5, 6};
    c.memory = {2, 7, from};
    c.values = c.memory;
    c.heads = 3;
    const Tensor x = random.Normal(c.x), memory = random.Normal(c.memory), valued = random.Normal(c.values);
    const Tensor y =
        std::get<0>(module->forward(x.transpose(0, 1), memory.transpose(0, 1), valued.transpose(0, 1))).transpose(0, 1);
    EXPECT_TRUE(torch::allclose(Serial(c, x, memory, valued, p, Tensor()), y, 1e-12, 1e-12));
  }
}

}  // namespace
}  // namespace adjoin
