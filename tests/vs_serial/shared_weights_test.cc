// Two layers that share their weights, in any layouts, on any ranks, with any home, equal two uses of one tensor in
// serial LibTorch: values, input gradients, and the one gradient that is the sum of both uses.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/layer_comparison.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using torch::Tensor;

// Any home; an owner may be a rank that neither layer uses.
std::string RandomHome(RandomJobs& random, int64_t ranks) {
  return random.Of<std::string>({"", " home: OWNER", absl::StrCat(" home: OWNER owner: ", random.Between(0, ranks - 1)),
                                 " home: REPLICATED", " home: SHARDED"});
}

struct Pair {
  std::string first, second;  // what the two layers' texts say of their weights
  std::string owner;          // "a" or "y"
};

// The owner stands before the other one, or after it.
Pair RandomPair(RandomJobs& random, int64_t ranks) {
  const std::string home = RandomHome(random, ranks);
  if (random.OneIn(2)) return {home, " weights_of: \"a\"", "a"};
  return {" weights_of: \"y\"", home, "y"};
}

// A layer "a" and then "y", both of `op`; with layouts of input, weight and output of their own, or without.
std::string TextOf(RandomJobs& random, const std::string& name, const std::string& input, const std::string& weights,
                   const std::vector<int64_t>& shape, const std::vector<int64_t>& w_shape, const std::string& op,
                   JobParts& job) {
  std::string text = absl::StrCat("layer { name: \"", name, "\" input: \"", input, "\"", weights);
  const auto add = [&](const char* field, const std::vector<int64_t>& of) {
    const std::string layout = absl::StrCat(name, "_", field);
    job.layouts += random.AnyLayout(layout, of, job.ranks, /*copies=*/true);
    absl::StrAppend(&text, " ", field, ": \"", layout, "\"");
  };
  if (random.OneIn(2)) add("x", shape);
  if (!w_shape.empty() && random.OneIn(2)) add("w", w_shape);
  if (random.OneIn(3)) add("y", shape);
  return absl::StrCat(text, " ", op, " }\n");
}

struct Kind {
  std::string op;
  std::vector<int64_t> weight;  // shape
  std::vector<int64_t> w;       // of which `w` is a layout; empty: not given
  bool bias = true;
};

Kind RandomKind(RandomJobs& random, int64_t features) {
  switch (random.Between(0, 3)) {
    case 0: {
      const bool bias = random.OneIn(2);
      return {absl::StrCat("linear { out_features: ", features, bias ? "" : " bias: false", " }"),
              {features, features},
              {features, features},
              bias};
    }
    case 1: return {"norm { kind: \"layer\" }", {features}, {}};
    case 2: return {"activation { fn: \"prelu\" }", {1}, {}, false};
    default: return {"conv { out_channels: 3 window { kernel: 3 pad_lo: 1 } }", {3, 3, 3}, {}};
  }
}

Tensor Apply(const Kind& kind, const Tensor& x, const std::string& owner, const Tensors& p) {
  const Tensor& weight = p.at(owner + ".weight");
  const Tensor bias = kind.bias ? p.at(owner + ".bias") : Tensor();
  if (kind.op[0] == 'l') return torch::linear(x, weight, bias);
  if (kind.op[0] == 'n') return torch::layer_norm(x, weight.sizes(), weight, bias);
  if (kind.op[0] == 'a') return torch::prelu(x, weight);
  return torch::conv1d(x, weight, bias, /*stride=*/1, /*padding=*/1);
}

std::string CompareTwins(uint64_t seed, int64_t ranks, TransportKind transport) {
  RandomJobs random(seed);
  const std::vector<int64_t> shape = {random.Between(1, 4), 3, random.Between(2, 7)};
  const Kind kind = RandomKind(random, shape[2]);
  JobParts job;
  job.ranks = ranks;
  job.last_dims = 3;
  AddRandomInput(random, "x", shape, job);
  const Pair pair = RandomPair(random, ranks);
  job.layers += TextOf(random, "a", "in_x", pair.first, shape, kind.w, kind.op, job);
  const bool between = random.OneIn(2);
  if (between) job.layers += "layer { name: \"tanh\" input: \"a\" activation { fn: \"tanh\" } }\n";
  job.layers += TextOf(random, "y", between ? "tanh" : "a", pair.second, shape, kind.w, kind.op, job);

  Tensor x = random.Normal(shape).requires_grad_();
  Tensors parameters = {{pair.owner + ".weight", random.Normal(kind.weight).requires_grad_()}};
  if (kind.bias) parameters[pair.owner + ".bias"] = random.Normal({kind.weight[0]}).requires_grad_();
  const Tensor a = Apply(kind, x, pair.owner, parameters);
  const Tensor y = Apply(kind, between ? torch::tanh(a) : a, pair.owner, parameters);
  return CompareLayer(job, random, x, parameters, y, transport);
}

class TwinsTest : public testing::TestWithParam<int64_t> {};

TEST_P(TwinsTest, EqualTwoUsesOfOneTensor) {
  const uint64_t seed = TestSeed(100);
  for (uint64_t i = 0; i < 150; ++i) {
    ASSERT_EQ(CompareTwins(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(TwinsTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(900);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(CompareTwins(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "")
        << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// A language model's: the table of the words is the weight of their scores.
std::string CompareTied(uint64_t seed, int64_t ranks) {
  RandomJobs random(seed);
  const int64_t batch = random.Between(1, 4), length = random.Between(1, 5);
  const int64_t rows = random.Between(2, 9), features = random.Between(1, 6);
  JobParts job;
  job.ranks = ranks;
  job.batch = batch;
  job.x_shape = {length};
  job.last_dims = 3;
  job.layouts = random.AnyLayout("words", {batch, length}, ranks, /*copies=*/true);
  const Pair pair = RandomPair(random, ranks);
  std::string table, scores, padding;
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("table", {rows, features}, ranks, /*copies=*/true);
    table = " w: \"table\"";
  }
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("of_scores", {rows, features}, ranks, /*copies=*/true);
    scores = " w: \"of_scores\"";
  }
  if (random.OneIn(2)) {
    job.layouts += random.AnyLayout("scored", {batch, length, rows}, ranks, /*copies=*/true);
    scores += " y: \"scored\"";
  }
  const int64_t padded = random.OneIn(2) ? random.Between(0, rows - 1) : -1;
  if (padded >= 0) padding = absl::StrCat(" padding_index: ", padded);
  job.layers =
      absl::StrCat("layer { name: \"a\" input: \"x\" x: \"words\"", pair.first, table,
                   " embedding { num_embeddings: ", rows, " dim: ", features, padding, " } }\n", "layer { name: \"y\"",
                   pair.second, scores, " linear { out_features: ", rows, " bias: false } }\n");
  std::string spec = JobText(job);
  const std::string field = "idx { path: \"x\" }";
  spec.insert(spec.find(field), "dtype: \"int64\" ");
  auto plan = PlanOf(spec, {{"data", batch}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);

  const Tensor x = random.Labels(batch * length, rows).reshape({batch, length});
  Tensors parameters = {{pair.owner + ".weight", random.Normal({rows, features}).requires_grad_()}};
  const Tensor& weight = parameters[pair.owner + ".weight"];
  const Tensor a = torch::embedding(weight, x, padded), y = torch::linear(a, weight);
  const Tensor flat = torch::flatten(y, 1), label = random.Labels(batch, 3);
  parameters["head.weight"] = (random.Normal({3, flat.size(1)}) * 0.3).requires_grad_();
  parameters["head.bias"] = random.Normal({3}).requires_grad_();
  const Tensor head = torch::linear(flat, parameters["head.weight"], parameters["head.bias"]);
  const Tensor loss = torch::nn::functional::cross_entropy(head, label);
  StepInput input;
  Expected expected;
  input.cotangents["y"] = random.Normal(y.sizes().vec());
  (loss + (y * input.cotangents["y"]).sum()).backward();
  input.fields = {{"x", x}, {"label", label}};
  input.seed = seed;
  expected.values = {{"a", a.detach()}, {"y", y.detach()}, {"head", head.detach()}};
  for (const auto& [name, parameter] : parameters) {
    input.parameters[name] = parameter.detach();
    expected.parameter_grads[name] = parameter.grad();
  }
  auto results = RunStep(*plan, input);
  if (!results.ok()) return absl::StrCat(results.status().ToString(), "\n", spec);
  std::string differences = Differences(*plan, "train", *results, expected, 1e-10);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t planned = plan->program(0).bytes_per_step(static_cast<int>(rank));
    const int64_t sent = (*results)[static_cast<size_t>(rank)].bytes_sent;
    if (sent != planned) absl::StrAppend(&differences, "rank ", rank, " sends ", sent, ", in the plan ", planned, "\n");
  }
  return differences.empty() ? "" : absl::StrCat(differences, spec);
}

TEST_P(TwinsTest, ATiedEmbeddingEqualsSerial) {
  const uint64_t seed = TestSeed(2000);
  for (uint64_t i = 0; i < 150; ++i) {
    ASSERT_EQ(CompareTied(seed + i, GetParam()), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TwinsTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace adjoin
