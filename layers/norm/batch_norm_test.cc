// Batch normalisation over random partitions equals LibTorch's on one rank: three training steps, then evaluation.
#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/types.h>
#include <algorithm>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/plan.pb.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

constexpr int kSteps = 3;

int64_t Product(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

// Everything random about a job whose layer "y" normalises the field "x".
struct Case {
  std::vector<int64_t> x_shape;
  JobParts job;
  bool affine = true;
  bool frozen = false;
  double eps = 1e-5;
  double momentum = 0.1;
};

// A partition of some of the ranks, or with copies of every part, which need a layer before: a field with copies would
// have partial gradients, and the comparison is with whole ones.
std::string RandomInput(RandomJobs& random, Case& c) {
  const int dims = static_cast<int>(c.x_shape.size());
  const std::vector<int64_t> partition = random.Partition(dims, /*whole=*/-1, c.job.ranks);
  const int64_t parts = Product(partition);
  const int64_t copies = random.OneIn(3) ? random.Between(1, c.job.ranks / parts) : 0;
  c.job.layouts = copies > 0
                      ? random.MeshLayout("x", c.x_shape, partition, copies, c.job.ranks)
                      : LayoutText("x", partition, random.Ranks(parts, c.job.ranks), random.Cuts(c.x_shape, partition));
  if (copies == 0 && !random.OneIn(3)) return "name: \"y\" input: \"x\" x: \"x\"";
  const std::vector<int64_t> other = random.Partition(dims, /*whole=*/-1, c.job.ranks);
  c.job.layouts += LayoutText("other", other, random.Ranks(Product(other), c.job.ranks), random.Cuts(c.x_shape, other));
  c.job.layers = "layer { name: \"before\" input: \"x\" x: \"other\" y: \"other\" repartition {} }\n";
  return "name: \"y\" x: \"x\"";
}

Case RandomCase(RandomJobs& random, int spatial) {
  Case c;
  do {
    c.x_shape = {random.Between(1, 5), random.Between(1, 5)};
    for (int i = 0; i < spatial; ++i) c.x_shape.push_back(random.Between(1, 6));
  } while (Product(c.x_shape) / c.x_shape[1] < 2);
  c.affine = !random.OneIn(3);
  c.frozen = c.affine && random.OneIn(5);
  c.eps = random.Of<double>({1e-5, 1e-3});
  c.momentum = random.Of<double>({0.1, 0.7, 1.0});
  JobParts& job = c.job;
  job.ranks = random.Of<int64_t>({1, 2, 3, 4, 6});
  job.batch = c.x_shape[0];
  job.x_shape.assign(c.x_shape.begin() + 1, c.x_shape.end());
  job.last_dims = spatial + 2;
  std::string layer = RandomInput(random, c);
  if (random.OneIn(3)) {
    const std::vector<int64_t> y = random.Partition(spatial + 2, /*whole=*/-1, job.ranks);
    job.layouts += LayoutText("y", y, random.Ranks(Product(y), job.ranks), random.Cuts(c.x_shape, y));
    layer += " y: \"y\"";
  }
  if (c.affine) {
    absl::StrAppend(&layer, " ", random.Of<std::string>({"", "home: OWNER", "home: REPLICATED", "home: SHARDED"}),
                    c.frozen ? " frozen: true" : "");
  }
  absl::StrAppend(&job.layers, "layer { ", layer, " norm { kind: \"batch\" affine: ", c.affine ? "true" : "false",
                  " eps: ", c.eps, " momentum: ", c.momentum, " } }\n");
  return c;
}

std::string SpecOf(const Case& c) { return JobText(c.job) + "evaluate { dataset: \"data\" metric: \"accuracy\" }\n"; }

// Ranks that hold the same part of a tensor hold the same bits.
std::string DifferentCopies(const Plan& plan, const std::vector<RankResult>& ranks) {
  std::string text;
  for (int i = 0; i < plan.parameter_size(); ++i) {
    if (!plan.parameter(i).buffer()) continue;
    const Layout home = *LayoutFromProto(plan.parameter(i).home());
    for (int a : home.mesh().ranks()) {
      for (int b : home.mesh().ranks()) {
        if (home.BoxOf(a) != home.BoxOf(b) || torch::equal(ranks[a].parameter[i], ranks[b].parameter[i])) continue;
        absl::StrAppend(&text, plan.parameter(i).name(), " has other bits on rank ", a, " than on ", b, "\n");
      }
    }
  }
  return text;
}

// The serial network and the job's whole tensors, step by step.
template <typename BatchNorm>
class Comparison {
 public:
  Comparison(const Case& c, RandomJobs& random)
      : case_(c),
        random_(random),
        norm_(torch::nn::BatchNormOptions(c.x_shape[1]).eps(c.eps).momentum(c.momentum).affine(c.affine)) {
    norm_->to(torch::kFloat64);
    if (c.affine) {
      torch::NoGradGuard no_grad;
      norm_->weight.copy_(random.Normal({c.x_shape[1]}));
      norm_->bias.copy_(random.Normal({c.x_shape[1]}));
    }
    const int64_t features = Product(c.job.x_shape);
    head_weight_ = (random.Normal({3, features}) * 0.3).requires_grad_();
    head_bias_ = random.Normal({3}).requires_grad_();
  }

  // "" or what differs.
  std::string Run(TransportKind transport) {
    const std::string spec = SpecOf(case_);
    auto plan = PlanOf(spec, {{"data", case_.job.batch}});
    if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
    MakeFieldsDifferentiable(*plan, "train");
    for (int step = 0; step < kSteps; ++step) {
      const std::string differences = Step(*plan, "train", transport);
      if (!differences.empty()) return absl::StrCat("training step ", step, ":\n", differences, spec);
    }
    norm_->eval();
    const std::string differences = Step(*plan, "evaluate", transport);
    return differences.empty() ? "" : absl::StrCat("evaluation:\n", differences, spec);
  }

 private:
  Tensors Buffers() const {
    return {{"y.running_mean", norm_->running_mean.clone()},
            {"y.running_var", norm_->running_var.clone()},
            {"y.num_batches_tracked", norm_->num_batches_tracked.clone()}};
  }

  std::string Step(const Plan& plan, const std::string& program, TransportKind transport) {
    const bool training = program == "train";
    torch::Tensor x = (random_.Normal(case_.x_shape) * 2 + 0.5).requires_grad_();
    const torch::Tensor label = random_.Labels(case_.job.batch, 3);
    StepInput input;
    // The ranks go on from what they counted themselves; the first step from what a plan initialises.
    input.parameters = kept_;
    input.parameters["head.weight"] = head_weight_.detach();
    input.parameters["head.bias"] = head_bias_.detach();
    if (case_.affine) {
      input.parameters["y.weight"] = norm_->weight.detach();
      input.parameters["y.bias"] = norm_->bias.detach();
    }
    input.fields = {{"x", x.detach()}, {"label", label}};
    input.program = program;
    input.transport = transport;
    input.seed = random_.Between(0, 1 << 30);

    for (torch::Tensor leaf : Leaves()) leaf.mutable_grad() = torch::zeros_like(leaf);
    const torch::Tensor y = norm_->forward(x);
    const torch::Tensor head = torch::linear(torch::flatten(y, 1), head_weight_, head_bias_);
    if (training) {
      const torch::Tensor cotangent = random_.Normal(case_.x_shape);
      input.cotangents = {{"y", cotangent}};
      (torch::nn::functional::cross_entropy(head, label) + (y * cotangent).sum()).backward();
    }
    Expected expected;
    expected.values = {{"y", y.detach()}, {"head", head.detach()}};
    if (training) expected.field_grads = {{"x", x.grad()}};
    expected.parameter_grads = {{"head.weight", head_weight_.grad()}, {"head.bias", head_bias_.grad()}};
    if (case_.affine && !case_.frozen) {
      expected.parameter_grads["y.weight"] = norm_->weight.grad();
      expected.parameter_grads["y.bias"] = norm_->bias.grad();
    }
    expected.parameters = Buffers();

    auto ranks = RunStep(plan, input);
    if (!ranks.ok()) return absl::StrCat(ranks.status().ToString(), "\n");
    for (int i = 0; i < plan.parameter_size(); ++i) {
      if (plan.parameter(i).buffer()) kept_[plan.parameter(i).name()] = (*ranks)[0].collected[i].clone();
    }
    return absl::StrCat(Differences(plan, program, *ranks, expected, 1e-10), DifferentCopies(plan, *ranks));
  }

  std::vector<torch::Tensor> Leaves() const {
    std::vector<torch::Tensor> leaves = {head_weight_, head_bias_};
    if (case_.affine) leaves.insert(leaves.end(), {norm_->weight, norm_->bias});
    return leaves;
  }

  const Case& case_;
  RandomJobs& random_;
  BatchNorm norm_;
  torch::Tensor head_weight_;
  torch::Tensor head_bias_;
  Tensors kept_;
};

std::string Compare(uint64_t seed, int spatial, TransportKind transport) {
  RandomJobs random(seed);
  const Case c = RandomCase(random, spatial);
  switch (spatial) {
    case 2: return Comparison<torch::nn::BatchNorm2d>(c, random).Run(transport);
    case 3: return Comparison<torch::nn::BatchNorm3d>(c, random).Run(transport);
    default: return Comparison<torch::nn::BatchNorm1d>(c, random).Run(transport);
  }
}

class BatchNormTest : public testing::TestWithParam<int> {};

TEST_P(BatchNormTest, EqualsSerial) {
  const uint64_t seed = TestSeed(1000);
  for (uint64_t i = 0; i < 150; ++i) {
    ASSERT_EQ(Compare(seed + i, GetParam(), TransportKind::kInMemoryDelayed), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

TEST_P(BatchNormTest, OverSharedMemory) {
  const uint64_t seed = TestSeed(9000);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(Compare(seed + i, GetParam(), TransportKind::kUcxSharedMemory), "") << "ADJOIN_TEST_SEED=" << seed + i;
  }
}

INSTANTIATE_TEST_SUITE_P(DimsAfterTheChannels, BatchNormTest, testing::Values(0, 1, 2, 3));

JobParts CutJob(const std::vector<int64_t>& partition, const std::vector<int64_t>& x_shape, const std::string& norm) {
  JobParts job;
  job.ranks = Product(partition);
  job.batch = x_shape[0];
  job.x_shape.assign(x_shape.begin() + 1, x_shape.end());
  job.last_dims = static_cast<int>(x_shape.size());
  std::vector<int> ranks(job.ranks);
  for (int i = 0; i < job.ranks; ++i) ranks[i] = i;
  job.layouts = LayoutText("x", partition, ranks);
  job.layers = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" norm { kind: \"batch\" ", norm, " } }\n");
  return job;
}

// The standard deviation is a ten-thousandth of the mean: float32 holds both, but not the mean of the squares.
TEST(BatchNormFloat32Test, ALargeMeanLosesNothing) {
  RandomJobs random(7);
  const std::vector<int64_t> shape = {8, 3, 6, 10};
  const std::string text = absl::StrReplaceAll(JobText(CutJob({2, 1, 2, 1}, shape, "momentum: 1")),
                                               {{"compute: \"float64\"", "compute: \"float32\""}});
  auto plan = PlanOf(text, {{"data", 8}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  MakeFieldsDifferentiable(*plan, "train");
  const torch::Tensor x = (random.Normal(shape) + 1e4).to(torch::kFloat32);
  const torch::Tensor cotangent = random.Normal(shape).to(torch::kFloat32);

  torch::Tensor exact = x.to(torch::kFloat64).requires_grad_();
  torch::nn::BatchNorm2d norm(torch::nn::BatchNormOptions(3).momentum(1));
  norm->to(torch::kFloat64);
  const torch::Tensor y = norm->forward(exact);
  // The head is as good as cut off: its gradients would be of no interest here.
  const torch::Tensor head = torch::zeros({3, 180});
  (y * cotangent.to(torch::kFloat64)).sum().backward();

  StepInput input;
  input.fields = {{"x", x}, {"label", torch::zeros({8}, torch::kInt64)}};
  input.parameters = {{"head.weight", head}, {"head.bias", torch::zeros({3})}};
  input.cotangents = {{"y", cotangent}};
  auto ranks = RunStep(*plan, input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const ProgramPlan& program = plan->program(0);
  for (const ValuePlan& value : program.value()) {
    if (value.name() != "y" && value.name() != "x") continue;
    const Layout layout = *LayoutFromProto(value.layout());
    for (int rank = 0; rank < 4; ++rank) {
      const RankResult& result = (*ranks)[rank];
      const bool is_y = value.name() == "y";
      const torch::Tensor actual = is_y ? result.values.at("y") : result.field_grads.at("x");
      const torch::Tensor expected = PartOf(is_y ? y.detach() : exact.grad(), layout, rank);
      EXPECT_LT((actual.to(torch::kFloat64) - expected).abs().max().item<double>(), 3e-6) << value.name();
    }
  }
  for (int i = 0; i < plan->parameter_size(); ++i) {
    if (plan->parameter(i).name() != "y.running_var") continue;
    for (const RankResult& result : *ranks) {
      const torch::Tensor error = result.parameter[i].to(torch::kFloat64) - norm->running_var;
      EXPECT_LT(error.abs().max().item<double>(), 1e-6);
    }
  }
}

// One movement of three numbers per channel and part, forward, and its adjoint backward; evaluation takes none.
TEST(BatchNormPlanTest, OneMovementPerPass) {
  const JobParts job = CutJob({2, 1, 2}, {4, 5, 6}, "");
  auto plan = PlanOf(JobText(job) + "evaluate { dataset: \"data\" metric: \"accuracy\" }\n", {{"data", 4}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> names;
  for (const ProgramPlan& program : plan->program()) {
    for (const OperatorPlan& op : program.op()) {
      if (op.name().rfind("y.", 0) != 0) continue;
      names.push_back(absl::StrCat(program.name(), " ", op.name()));
      EXPECT_FALSE(op.differentiable()) << "the images need no gradient";
      EXPECT_EQ(op.from().shape(0), 4);
      EXPECT_EQ(op.from().shape(2), 5);
      EXPECT_EQ(op.from().dtype(), "float64");
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"train y.statistics"}));
}

}  // namespace
}  // namespace adjoin
