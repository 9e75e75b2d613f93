// Whole LeNet-5 in the five arrangements of examples/mnist against a plain torch::nn one: one step of training, several
// with frozen layers and evaluations between, what each rank sends, and how large its largest activations are.
#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/network/gradient_sync.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/vs_serial/partitioned_run.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

constexpr double kLearningRate = 0.01;

// A job of examples/mnist in float64 with another batch size.
std::string JobOf(const std::string& name, int64_t batch) {
  std::ifstream file(absl::StrCat("examples/mnist/", name, ".textproto"));
  std::stringstream text;
  text << file.rdbuf();
  const std::string replaced = absl::StrReplaceAll(text.str(), {{"batch: 64", absl::StrCat("batch: ", batch)}});
  EXPECT_NE(replaced, text.str()) << "no \"batch: 64\" in " << name;
  return replaced + "precision { compute: \"float64\" }\n";
}

struct LeNet : torch::nn::Module {
  LeNet() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).padding(2)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
    fc1 = register_module("fc1", torch::nn::Linear(16 * 5 * 5, 120));
    fc2 = register_module("fc2", torch::nn::Linear(120, 84));
    fc3 = register_module("fc3", torch::nn::Linear(84, 10));
    to(torch::kFloat64);
  }
  torch::Tensor forward(torch::Tensor x, Tensors& values) {
    values["pool1"] = x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    values["conv2"] = x = conv2(x);
    values["pool2"] = x = torch::max_pool2d(torch::relu(x), 2);
    values["fc1"] = x = fc1(torch::flatten(x, 1));
    x = fc2(torch::relu(x));
    values["fc3"] = x = fc3(torch::relu(x));
    return x;
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
};

// The serial step and what it should give.
struct SerialStep {
  StepInput input;
  Expected expected;
  double loss = 0;
};

SerialStep RunSerial(int64_t batch, uint64_t seed) {
  RandomJobs random(seed);
  SerialStep step;
  LeNet model;
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model.named_parameters()) {
      torch::Tensor value = random.Normal(parameter.value().sizes().vec()) * 0.1;
      parameter.value().copy_(value);
      step.input.parameters[parameter.key()] = value;
    }
  }
  torch::Tensor image = random.Normal({batch, 1, 28, 28}).requires_grad_();
  const torch::Tensor label = random.Labels(batch, 10);
  torch::Tensor loss = torch::nn::functional::cross_entropy(model.forward(image, step.expected.values), label);
  loss.backward();
  step.loss = loss.item<double>();
  torch::optim::SGD(model.parameters(), torch::optim::SGDOptions(kLearningRate)).step();
  for (auto& [name, value] : step.expected.values) value = value.detach();
  for (auto& parameter : model.named_parameters()) {
    step.expected.parameter_grads[parameter.key()] = parameter.value().grad();
    step.expected.parameters[parameter.key()] = parameter.value().detach();
  }
  step.expected.field_grads["image"] = image.grad();
  step.input.fields = {{"image", image.detach()}, {"label", label}};
  step.input.sgd_lr = kLearningRate;
  step.input.seed = seed;
  return step;
}

const ProgramPlan& TrainOf(const Plan& plan) {
  for (const ProgramPlan& program : plan.program()) {
    if (program.name() == "train") return program;
  }
  TORCH_CHECK(false, "no training program");
}

class LeNetTest : public testing::TestWithParam<const char*> {};

TEST_P(LeNetTest, OneStepEqualsSerial) {
  // 7 does not divide by the batch cuts; 3 leaves one of four ranks without samples.
  for (const int64_t batch : {7, 3}) {
    const uint64_t seed = TestSeed(40 + batch);
    auto plan = PlanOf(JobOf(GetParam(), batch), {{"train", 10000}, {"test", 2000}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    MakeFieldsDifferentiable(*plan, "train");
    const SerialStep serial = RunSerial(batch, seed);
    auto ranks = RunStep(*plan, serial.input);
    ASSERT_TRUE(ranks.ok()) << ranks.status() << " (ADJOIN_TEST_SEED=" << seed << ")";
    EXPECT_EQ(Differences(*plan, "train", *ranks, serial.expected, 1e-10), "") << "ADJOIN_TEST_SEED=" << seed;
    for (const RankResult& rank : *ranks) EXPECT_NEAR(rank.loss, serial.loss, 1e-12);
  }
}

TEST_P(LeNetTest, OneStepOverSharedMemoryEqualsSerial) {
  auto plan = PlanOf(JobOf(GetParam(), 8), {{"train", 10000}, {"test", 2000}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  SerialStep serial = RunSerial(8, 50);
  serial.input.transport = TransportKind::kUcxSharedMemory;
  serial.expected.field_grads.clear();
  auto ranks = RunStep(*plan, serial.input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(Differences(*plan, "train", *ranks, serial.expected, 1e-10), "");
}

TEST_P(LeNetTest, EachRankSendsWhatThePlanSays) {
  auto plan = PlanOf(JobOf(GetParam(), 9), {{"train", 10000}, {"test", 2000}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const SerialStep serial = RunSerial(9, 60);
  auto ranks = RunStep(*plan, serial.input);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const ProgramPlan& train = TrainOf(*plan);
  ASSERT_EQ(train.bytes_per_step_size(), static_cast<int>(ranks->size()));
  for (size_t rank = 0; rank < ranks->size(); ++rank) {
    EXPECT_EQ((*ranks)[rank].bytes_sent, train.bytes_per_step(rank)) << "rank " << rank;
    EXPECT_EQ((*ranks)[rank].bytes_sent > 0, ranks->size() > 1) << "rank " << rank;
  }
}

// Several steps with layers that are not trained, and after each an evaluation: another program, without gradients.
constexpr int kSteps = 4;
constexpr double kSequenceRate = 0.1;

bool IsFrozen(const std::string& parameter) {
  return parameter.rfind("conv1.", 0) == 0 || parameter.rfind("fc2.", 0) == 0;
}

struct Sequence {
  Tensors parameters;
  std::vector<Tensors> batches;  // whole fields of each step
  Tensors test;
  std::vector<double> losses;  // of step, evaluation, step, ...
};

Sequence RunSerialSequence(int64_t batch, uint64_t seed) {
  RandomJobs random(seed);
  Sequence sequence;
  const auto fields = [&] {
    return Tensors{{"image", random.Normal({batch, 1, 28, 28})}, {"label", random.Labels(batch, 10)}};
  };
  LeNet model;
  std::vector<torch::Tensor> trained;
  for (auto& parameter : model.named_parameters()) {
    parameter.value().set_requires_grad(false);
    parameter.value().copy_(random.Normal(parameter.value().sizes().vec()) * 0.1);
    sequence.parameters[parameter.key()] = parameter.value().clone();
    if (!IsFrozen(parameter.key())) trained.push_back(parameter.value().set_requires_grad(true));
  }
  torch::optim::SGD optimizer(trained, torch::optim::SGDOptions(kSequenceRate));
  sequence.test = fields();
  const auto loss_of = [&](Tensors& input) {
    Tensors values;
    torch::Tensor loss = torch::nn::functional::cross_entropy(model.forward(input["image"], values), input["label"]);
    sequence.losses.push_back(loss.item<double>());
    return loss;
  };
  for (int step = 0; step < kSteps; ++step) {
    sequence.batches.push_back(fields());
    optimizer.zero_grad();
    loss_of(sequence.batches.back()).backward();
    optimizer.step();
    torch::NoGradGuard no_grad;
    loss_of(sequence.test);
  }
  return sequence;
}

// The same on one rank of a plan; returns the losses.
absl::StatusOr<std::vector<double>> RunSequence(const Plan& plan, const Sequence& sequence, Transport& transport) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  const int rank = transport.rank();
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, rank));
  for (const auto& [name, whole] : sequence.parameters) {
    ADJOIN_ASSIGN_OR_RETURN(const int index, parameters.IndexOf(name));
    ADJOIN_RETURN_IF_ERROR(parameters.SetFromGlobal(index, whole));
  }
  ADJOIN_ASSIGN_OR_RETURN(auto train, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(auto evaluate,
                          Network::Create(plan, "evaluate", &communicator, &parameters, BuiltinLayers()));
  ADJOIN_ASSIGN_OR_RETURN(auto sync, GradientSync::Create(plan, &communicator, &parameters));
  std::vector<double> losses;
  const auto forward = [&](Network& network, const Tensors& whole, Tape& tape) -> absl::StatusOr<torch::Tensor> {
    ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(network.program(), whole, rank));
    ADJOIN_ASSIGN_OR_RETURN(const Network::Result result, network.Forward(fields, tape));
    ADJOIN_ASSIGN_OR_RETURN(const auto sums, network.SumOverRanks({result.loss.detach().item<double>()}));
    losses.push_back(sums[0]);
    return result.loss;
  };
  for (const Tensors& batch : sequence.batches) {
    Tape tape;
    ADJOIN_ASSIGN_OR_RETURN(const torch::Tensor loss, forward(*train, batch, tape));
    tape.Backward(loss);
    ADJOIN_RETURN_IF_ERROR(sync->Sync());
    {
      torch::NoGradGuard no_grad;
      for (int i = 0; i < parameters.size(); ++i) {
        torch::Tensor parameter = parameters.tensor(i);
        const bool frozen = IsFrozen(parameters.name(i));
        if (frozen != parameters.frozen(i) || frozen == parameter.grad().defined()) {
          return absl::InternalError(absl::StrCat(parameters.name(i), " is frozen, or not, against the job"));
        }
        if (frozen) continue;
        parameter.sub_(parameter.grad(), kSequenceRate);
        parameter.mutable_grad().reset();
      }
    }
    Tape unused;
    ADJOIN_RETURN_IF_ERROR(forward(*evaluate, sequence.test, unused).status());
  }
  return losses;
}

TEST_P(LeNetTest, FrozenLayersAndEvaluationBetweenSteps) {
  const uint64_t seed = TestSeed(80);
  const std::string job = absl::StrReplaceAll(
      JobOf(GetParam(), 5),
      {{"name: \"conv1\"", "name: \"conv1\" frozen: true"}, {"name: \"fc2\"", "name: \"fc2\" frozen: true"}});
  auto plan = PlanOf(job, {{"train", 10000}, {"test", 2000}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Sequence sequence = RunSerialSequence(5, seed);
  const int ranks = static_cast<int>(plan->spec().ranks());
  std::vector<std::vector<double>> losses(ranks);
  const absl::Status status =
      RunRanks(ranks, TransportKind::kInMemoryDelayed, seed, [&](Transport& transport) -> absl::Status {
        try {
          ADJOIN_ASSIGN_OR_RETURN(losses[transport.rank()], RunSequence(*plan, sequence, transport));
          return absl::OkStatus();
        } catch (...) {
          return StatusFromCurrentException();
        }
      });
  ASSERT_TRUE(status.ok()) << status << " (ADJOIN_TEST_SEED=" << seed << ")";
  for (const std::vector<double>& of_rank : losses) {
    ASSERT_EQ(of_rank.size(), sequence.losses.size());
    for (size_t i = 0; i < of_rank.size(); ++i) {
      EXPECT_NEAR(of_rank[i], sequence.losses[i], 1e-10) << (i % 2 == 0 ? "step " : "evaluation after step ") << i / 2;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, LeNetTest,
                         testing::Values("lenet5-serial", "lenet5-spatial", "lenet5-sync-sgd", "lenet5-hybrid",
                                         "lenet5-two-stage"),
                         [](const auto& info) {
                           return absl::StrReplaceAll(std::string(info.param), {{"-", "_"}});
                         });

// Cells of part `part` when `n` is cut evenly into `parts`.
struct Range {
  int64_t lo, hi;
  int64_t size() const { return hi - lo; }
};
Range PartRange(int64_t n, int64_t parts, int64_t part) {
  return {part * (n / parts) + std::min(part, n % parts), (part + 1) * (n / parts) + std::min(part + 1, n % parts)};
}

// The largest tensor around one windowed layer on one part of each of two spatial dims, in elements per sample: its own
// input, what its outputs read (physical padding included), its outputs.
struct WindowedLayer {
  const char* name;
  int64_t in_channels, out_channels, in, out, kernel, stride;

  int64_t Peak(int64_t parts_h, int64_t h, int64_t parts_w, int64_t w) const {
    const auto reads = [&](Range o) { return (o.hi - 1 - o.lo) * stride + kernel; };
    const Range in_h = PartRange(in, parts_h, h), in_w = PartRange(in, parts_w, w);
    const Range out_h = PartRange(out, parts_h, h), out_w = PartRange(out, parts_w, w);
    return std::max({in_channels * in_h.size() * in_w.size(), in_channels * reads(out_h) * reads(out_w),
                     out_channels * out_h.size() * out_w.size()});
  }
};

constexpr WindowedLayer kWindowed[] = {{"conv1", 1, 6, 28, 28, 5, 1},
                                       {"pool1", 6, 6, 28, 14, 2, 2},
                                       {"conv2", 6, 16, 14, 10, 5, 1},
                                       {"pool2", 16, 16, 10, 5, 2, 2}};

// The parts of (batch, height, width) and the ranks of an arrangement of examples/mnist.
struct Arrangement {
  const char* job;
  int64_t batch_parts, height_parts, width_parts;
};

TEST(LeNetPeakTest, NoActivationIsLargerThanItsBoxAndHalo) {
  const int64_t batch = 8;
  for (const Arrangement& a : {Arrangement{"lenet5-serial", 1, 1, 1}, Arrangement{"lenet5-spatial", 1, 2, 2},
                               Arrangement{"lenet5-sync-sgd", 4, 1, 1}, Arrangement{"lenet5-hybrid", 2, 2, 1},
                               Arrangement{"lenet5-two-stage", 1, 2, 1}}) {
    auto plan = PlanOf(JobOf(a.job, batch), {{"train", 10000}, {"test", 2000}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    auto ranks = RunStep(*plan, RunSerial(batch, 70).input);
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    int64_t rank = 0;
    for (int64_t b = 0; b < a.batch_parts; ++b) {
      for (int64_t h = 0; h < a.height_parts; ++h) {
        for (int64_t w = 0; w < a.width_parts; ++w, ++rank) {
          for (const WindowedLayer& layer : kWindowed) {
            EXPECT_EQ((*ranks)[rank].peak_elements.at(layer.name),
                      batch / a.batch_parts * layer.Peak(a.height_parts, h, a.width_parts, w))
                << a.job << ", rank " << rank << ", " << layer.name;
          }
        }
      }
    }
    for (; rank < static_cast<int64_t>(ranks->size()); ++rank) {
      EXPECT_EQ((*ranks)[rank].peak_elements.at("conv1"), 0) << a.job << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace adjoin
