// Embedding over tables that are cut in rows, in columns, in both and not at all equals LibTorch's on one rank.
#include <gtest/gtest.h>

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layers/network/parameters.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

using torch::Tensor;

constexpr const char* kHomes[] = {"", "home: OWNER", "home: REPLICATED", "home: SHARDED"};

// As JobText, of an int64 field.
std::string TextOf(const JobParts& job) {
  std::string text = JobText(job);
  const std::string field = "idx { path: \"x\" }";
  return text.insert(text.find(field), "dtype: \"int64\" ");
}

struct Case {
  std::vector<int64_t> shape;  // the indices'
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t padding = -1;
  JobParts job;
};

Case RandomCase(RandomJobs& random) {
  Case c;
  c.shape.resize(random.Between(2, 4));
  for (int64_t& extent : c.shape) extent = random.Between(1, 5);
  c.rows = random.Between(1, 9);
  c.columns = random.Between(1, 6);
  c.job.ranks = random.Between(1, 6);
  c.job.batch = c.shape[0];
  c.job.x_shape.assign(c.shape.begin() + 1, c.shape.end());
  c.job.last_dims = static_cast<int>(c.shape.size()) + 1;
  c.job.layouts = random.AnyLayout("x", c.shape, c.job.ranks, /*copies=*/true);
  std::string head = absl::StrCat("name: \"y\" input: \"x\" x: \"x\" ", kHomes[random.Between(0, 3)]);
  if (random.OneIn(3)) {
    // On the mesh of the table: an axis that cuts the indices as well, or has copies of them.
    const int64_t a = random.Between(1, c.job.ranks), b = random.Between(1, c.job.ranks / a);
    const std::vector<int> on = random.Ranks(a * b, c.job.ranks);
    const std::string mesh =
        absl::StrCat("mesh { size: ", a, " } mesh { size: ", b, " } rank: ", ListText({on.begin(), on.end()}));
    const auto last = static_cast<int64_t>(c.shape.size()) - 1;
    const auto split = [&](int64_t dim) { return absl::StrCat("S(", dim, ")"); };
    const std::string first_x = random.OneIn(3) ? "B" : split(0), second_x = random.OneIn(3) ? "B" : split(last);
    const std::string first_w = random.Of<std::string>({"B", "S(0)", "S(1)"});
    const std::string second_w = random.Of<std::string>({"B", "S(0)", "S(1)"});
    c.job.layouts = absl::StrCat("layout { name: \"x\" ", mesh, " sbp: [\"", first_x, "\", \"", second_x, "\"] }\n",
                                 "layout { name: \"w\" ", mesh, " sbp: [\"", first_w, "\", \"", second_w, "\"] }\n");
    head += " w: \"w\"";
  } else if (random.OneIn(2)) {
    c.job.layouts += random.AnyLayout("w", {c.rows, c.columns}, c.job.ranks, /*copies=*/true);
    head += " w: \"w\"";
  }
  if (random.OneIn(3)) {
    std::vector<int64_t> y = c.shape;
    y.push_back(c.columns);
    c.job.layouts += random.AnyLayout("y", y, c.job.ranks, /*copies=*/true);
    head += " y: \"y\"";
  }
  std::string padding;
  if (random.OneIn(2)) {
    c.padding = random.Between(0, c.rows - 1);
    padding = absl::StrCat(" padding_index: ", random.OneIn(2) ? c.padding : c.padding - c.rows);
  }
  c.job.layers =
      absl::StrCat("layer { ", head, " embedding { num_embeddings: ", c.rows, " dim: ", c.columns, padding, " } }\n");
  return c;
}

std::string Compare(uint64_t seed, TransportKind transport) {
  RandomJobs random(seed);
  const Case c = RandomCase(random);
  const std::string spec = TextOf(c.job);
  auto plan = PlanOf(spec, {{"data", c.job.batch}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  int64_t count = 1;
  for (int64_t extent : c.shape) count *= extent;
  const Tensor x = random.Labels(count, c.rows).reshape(c.shape);
  Tensors parameters = {{"y.weight", random.Normal({c.rows, c.columns}).requires_grad_()}};
  const Tensor y = torch::embedding(parameters["y.weight"], x, c.padding);
  const Tensor flat = torch::flatten(y, 1), label = random.Labels(c.job.batch, 3);
  parameters["head.weight"] = (random.Normal({3, flat.size(1)}) * 0.3).requires_grad_();
  parameters["head.bias"] = random.Normal({3}).requires_grad_();
  const Tensor head = torch::linear(flat, parameters["head.weight"], parameters["head.bias"]);
  const Tensor loss = torch::nn::functional::cross_entropy(head, label);
  StepInput input;
  Expected expected;
  input.cotangents["y"] = random.Normal(y.sizes().vec());
  (loss + (y * input.cotangents["y"]).sum()).backward();
  input.fields = {{"x", x}, {"label", label}};
  input.transport = transport;
  input.seed = seed;
  expected.values = {{"y", y.detach()}, {"head", head.detach()}};
  for (const auto& [name, parameter] : parameters) {
    input.parameters[name] = parameter.detach();
    expected.parameter_grads[name] = parameter.grad();
  }
  auto ranks = RunStep(*plan, input);
  if (!ranks.ok()) return absl::StrCat(ranks.status().ToString(), "\n", spec);
  std::string differences = Differences(*plan, "train", *ranks, expected, 1e-10);
  for (const RankResult& rank : *ranks) {
    if (!(std::abs(rank.loss - loss.item<double>()) <= 1e-10)) absl::StrAppend(&differences, "loss ", rank.loss, "\n");
  }
  return differences.empty() ? "" : absl::StrCat(differences, spec);
}

TEST(EmbeddingTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST(EmbeddingTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(3000);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(Compare(seed + i, TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

// Indices [2, 3] on 2 ranks, cut in dim 1 after the second; a table of 5 rows.
absl::StatusOr<Plan> SmallPlan(const std::string& layer, const std::string& before = "", bool whole_numbers = true) {
  JobParts job;
  job.ranks = 2;
  job.batch = 2;
  job.x_shape = {3};
  job.last_dims = 3;
  job.layouts = LayoutText("x", {1, 2}, {0, 1}, {{1, {2, 1}}}) + LayoutText("rows", {2, 1}, {0, 1}) +
                LayoutText("columns", {1, 2}, {0, 1});
  job.layers = absl::StrCat(before, "layer { name: \"y\" input: \"x\" x: \"x\" ", layer, " }\n");
  return PlanOf(whole_numbers ? TextOf(job) : JobText(job), {{"data", 2}});
}

TEST(EmbeddingTest, AnIndexThatTheTableDoesNotHaveIsAnError) {
  const auto plan = SmallPlan("embedding { num_embeddings: 5 dim: 4 }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const int64_t bad : {int64_t{5}, int64_t{-1}, int64_t{1} << 40}) {
    StepInput input;
    Tensor x = torch::zeros({2, 3}, torch::kInt64);
    x[1][2] = bad;
    input.fields = {{"x", x}, {"label", torch::zeros({2}, torch::kInt64)}};
    const auto ranks = RunStep(*plan, input);
    EXPECT_EQ(ranks.status().code(), absl::StatusCode::kOutOfRange);
    const std::string right = absl::StrCat("layer \"y\" on rank 1: index ", bad,
                                           " at [1, 2] of its input; with num_embeddings 5, 0 to 4 are possible");
    EXPECT_TRUE(absl::StrContains(std::string(ranks.status().message()), right)) << ranks.status();
  }
}

// 1,000 gradients of 1: added up in bfloat16 they would stay at 256.
TEST(EmbeddingTest, AFrequentIndexLosesNothingInBFloat16) {
  JobParts job;
  job.ranks = 2;
  job.batch = 2;
  job.x_shape = {1000};
  job.last_dims = 3;
  job.layouts = LayoutText("x", {2, 1}, {0, 1});
  job.layers = "layer { name: \"y\" input: \"x\" x: \"x\" embedding { num_embeddings: 3 dim: 2 } }\n";
  const std::string text =
      absl::StrReplaceAll(TextOf(job), {{"compute: \"float64\"", "compute: \"bfloat16\" params: \"float32\""}});
  const auto plan = PlanOf(text, {{"data", 2}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  StepInput input;
  input.fields = {{"x", torch::ones({2, 1000}, torch::kInt64)}, {"label", torch::zeros({2}, torch::kInt64)}};
  input.parameters = {
      {"y.weight", torch::ones({3, 2})}, {"head.weight", torch::zeros({3, 2000})}, {"head.bias", torch::zeros({3})}};
  input.cotangents = {{"y", torch::ones({2, 1000, 2}, torch::kBFloat16)}};
  const auto ranks = RunStep(*plan, input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  for (const RankResult& rank : *ranks) {
    ASSERT_TRUE(rank.parameter_grad[0].defined());
    EXPECT_EQ(rank.parameter_grad[0][1][0].item<double>(), 2000);
    EXPECT_EQ(rank.parameter_grad[0][0][0].item<double>(), 0);
  }
}

TEST(EmbeddingTest, StartsNormalWithAZeroForPadding) {
  for (const std::string home : {"home: SHARDED w: \"columns\"", "w: \"rows\"", ""}) {
    const auto plan = SmallPlan(absl::StrCat(home, " embedding { num_embeddings: 1000 dim: 40 padding_index: -2 }"));
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->parameter(0).name(), "y.weight");
    const Layout layout = *LayoutFromProto(plan->parameter(0).home());
    Tensor table = torch::full({1000, 40}, 100.0, torch::kFloat64);
    for (int rank = 0; rank < 2; ++rank) {
      Parameters parameters = *Parameters::Create(*plan, rank);
      parameters.Initialise(7);
      PartOf(table, layout, rank).copy_(parameters.tensor(0).detach());
    }
    EXPECT_EQ(table[998].abs().max().item<double>(), 0);
    EXPECT_GT(table[999].abs().max().item<double>(), 0);
    // Five standard deviations.
    EXPECT_NEAR(table.mean().item<double>(), 0, 0.025);
    EXPECT_NEAR(table.square().mean().item<double>(), 1, 0.036);
  }
}

TEST(EmbeddingTest, WhatCannotBeIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"embedding { dim: 4 }", "embedding.num_embeddings is 0; it must be at least 1"},
      {"embedding { num_embeddings: 4 }", "embedding.dim is 0; it must be at least 1"},
      {"embedding { num_embeddings: 4 dim: 2 padding_index: 4 }", "embedding.padding_index is 4; -4 to 3 are possible"},
      {"w: \"z\" embedding { num_embeddings: 4 dim: 2 }", "\"z\""},
      {"embedding { num_embeddings: 4000000000000000 dim: 200000 }", "is too large"},
      {"init { kind: \"normal_with_padding\" value: 4 } embedding { num_embeddings: 4 dim: 2 }",
       "init.value is 4; of kind \"normal_with_padding\" it is the row that is 0, from 0 to 3"}};
  for (const auto& [layer, message] : cases) {
    const auto plan = SmallPlan(layer);
    EXPECT_TRUE(absl::StrContains(std::string(plan.status().message()), message)) << layer << "\n" << plan.status();
  }
  const auto plan = SmallPlan("embedding { num_embeddings: 4 dim: 2 }", "", /*whole_numbers=*/false);
  EXPECT_TRUE(absl::StrContains(std::string(plan.status().message()),
                                "its input has the type float64; it reads indices: a field with dtype: \"int64\""))
      << plan.status();
}

// Rows are looked up where they are: what moves is one sum of vectors, cut as the indices are.
TEST(EmbeddingTest, RowsAreReducedToTheCutOfTheIndices) {
  JobParts job;
  job.ranks = 2;
  job.batch = 2;
  job.x_shape = {6};
  job.last_dims = 3;
  job.layouts =
      "layout { name: \"x\" mesh { size: 2 } sbp: \"S(1)\" }\nlayout { name: \"w\" mesh { size: 2 } sbp: \"S(0)\" }\n";
  job.layers = "layer { name: \"y\" input: \"x\" x: \"x\" w: \"w\" embedding { num_embeddings: 9 dim: 4 } }\n";
  const auto plan = PlanOf(TextOf(job), {{"data", 2}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ProgramPlan& program = plan->program(0);
  ASSERT_EQ(program.layer(0).op_size(), 2);
  EXPECT_EQ(program.layer(0).op(0).role(), "x");
  EXPECT_EQ(program.layer(0).op(1).role(), "y");
  const OperatorPlan& sum = program.op(program.layer(0).op(1).index());
  EXPECT_EQ(sum.from().placement(0), "P(sum)");
  EXPECT_EQ(sum.to().placement(0), "S(1)");
  EXPECT_FALSE(plan->parameter(0).has_sync());
}

}  // namespace
}  // namespace adjoin
