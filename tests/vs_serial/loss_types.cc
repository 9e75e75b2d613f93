#include "tests/vs_serial/loss_types.h"

#include <map>
#include <memory>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/loss/serial_loss.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/rules/layout_proto.h"
#include "layers/sum_type.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/job.pb.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {
namespace {

using at::Tensor;
using Prediction = LossTypeCase::Prediction;

constexpr int kRanks = 2;
constexpr int64_t kBatch = 2;

// Nothing but a movement is before the loss. A loss of weight 0 is of a layer that has something to train.
std::string JobOf(const LossTypeCase& of, const std::string& compute) {
  const bool variance = of.kind == "gaussian_nll";
  return absl::StrCat("name: \"losses\" kind: TRAIN ranks: 2 seed: 1 precision { compute: \"", compute, "\" params: \"",
                      compute == "bfloat16" ? "float32" : compute, "\" }\n",
                      "layout { name: \"rows\" partition: [1, 1, 2, 1] }\n"
                      "layout { name: \"columns\" partition: [1, 1, 1, 2] rank: [1, 0] }\n"
                      "layout { name: \"one\" partition: [1, 1] rank: [0] }\n"
                      "layer { name: \"y\" input: \"x\" x: \"rows\" y: \"columns\" repartition {} }\n",
                      variance ? "layer { name: \"v\" input: \"x1\" x: \"rows\" y: \"columns\" repartition {} }\n" : "",
                      "layer { name: \"other\" input: \"side\" x: \"one\" linear { out_features: 2 } }\n"
                      "loss { kind: \"",
                      of.kind, "\" input: \"y\" target: \"wanted\" ", variance ? "variance: \"v\" " : "", of.options,
                      " }\n",
                      "loss { kind: \"mse\" input: \"other\" target: \"goal\" weight: 0 }\n"
                      "dataset { name: \"data\"\n",
                      "  field { name: \"x\" shape: [3, 8, 6] idx { path: \"x\" } }\n",
                      variance ? "  field { name: \"x1\" shape: [3, 8, 6] idx { path: \"x\" } }\n" : "",
                      of.classes ? "  field { name: \"wanted\" shape: [8, 6] dtype: \"int64\" idx { path: \"x\" } }\n"
                                 : "  field { name: \"wanted\" shape: [3, 8, 6] idx { path: \"x\" } }\n",
                      "  field { name: \"side\" shape: 1 idx { path: \"x\" } }\n"
                      "  field { name: \"goal\" shape: 2 idx { path: \"x\" } } }\n"
                      "train { dataset: \"data\" batch: ",
                      kBatch, " steps: 1 optimizer { sgd { lr: 0.1 } } }\noutput_dir: \"out\"\n");
}

Tensor Rounded(const Tensor& numbers, at::ScalarType type) {
  return numbers.is_floating_point() ? numbers.to(type).to(at::kDouble) : numbers;
}

struct Step {
  Tensors fields;    // float64 numbers that the type has
  Tensor direction;  // the gradient of "x" is multiplied with it before it is differentiated again
};

Step Draw(const LossTypeCase& of, const Plan& plan, at::ScalarType type) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(TestSeed(1));
  const auto normal = [&](at::IntArrayRef shape) { return at::randn(shape, generator, at::kDouble); };
  Tensor x = normal({kBatch, 3, 8, 6});
  switch (of.prediction) {
    case Prediction::kNormal: break;
    case Prediction::kPositive: x = at::softplus(x) + 0.1; break;
    case Prediction::kUnit: x = at::sigmoid(x); break;
    case Prediction::kLogarithms: x = at::log_softmax(x, 1); break;
    case Prediction::kProbabilities: x = at::softmax(x, 1); break;
  }
  Step step;
  step.direction = Rounded(normal(x.sizes()), type);
  step.fields["x"] = Rounded(x, type);
  step.fields["x1"] = Rounded(at::softplus(normal(x.sizes())) + 0.1, type);
  step.fields["side"] = Rounded(normal({kBatch, 1}), type);
  step.fields["goal"] = Rounded(normal({kBatch, 2}), SumType(type));
  for (const Field& field : plan.spec().dataset(0).field()) {
    if (field.name() != "wanted") continue;
    step.fields["wanted"] = Rounded(DrawTarget(plan.spec().loss(0), field, x, generator), SumType(type));
  }
  return step;
}

// The loss, the gradient of "x", and the gradient of its product with the direction; undefined where it has none.
struct Derivatives {
  Tensor loss, once, twice;
};

Derivatives Serial(const Plan& plan, const Step& step) {
  const Tensor x = step.fields.at("x").detach().clone().set_requires_grad(true);
  const Tensor loss = SerialLoss(plan.spec().loss(0), x, step.fields.at("wanted"), step.fields.at("x1"));
  const Tensor once = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  Derivatives derivatives = {loss.detach(), once.detach(), at::zeros_like(x)};
  if (!once.requires_grad()) return derivatives;
  (once * step.direction).sum().backward();
  if (x.grad().defined()) derivatives.twice = x.grad();
  return derivatives;
}

absl::Status RunRank(const Plan& plan, const Step& step, at::ScalarType type, bool twice, Transport& transport,
                     Derivatives& derivatives) {
  HostMemory memory;
  Communicator communicator(&transport, &memory, {});
  ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, transport.rank()));
  ADJOIN_ASSIGN_OR_RETURN(auto network, Network::Create(plan, "train", &communicator, &parameters, BuiltinLayers()));
  Tensors whole;
  for (const auto& [name, field] : step.fields) {
    const bool target = name == "wanted" || name == "goal";
    whole[name] = field.is_floating_point() ? field.to(target ? SumType(type) : type) : field;
  }
  ADJOIN_ASSIGN_OR_RETURN(const Tensors fields, LocalFields(plan.program(0), whole, transport.rank()));
  Tape tape;
  ADJOIN_ASSIGN_OR_RETURN(const Network::Result forward, network->Forward(fields, tape, /*keep_values=*/true));
  derivatives.loss = forward.loss.detach();
  const Tensor x = fields.at("x");
  try {
    if (!twice) {
      tape.Backward(forward.loss);
      derivatives.once = x.grad().defined() ? x.grad() : at::zeros_like(x);
      return absl::OkStatus();
    }
    const Tensor once = tape.Grad({forward.loss}, {x}, {at::ones_like(forward.loss)}, /*create_graph=*/true)[0];
    for (const ValuePlan& value : plan.program(0).value()) {
      if (value.name() != "x") continue;
      ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
      tape.Backward((once * PartOf(step.direction, layout, transport.rank()).to(type)).sum());
    }
    derivatives.twice = x.grad().defined() ? x.grad() : at::zeros_like(x);
  } catch (...) {
    return StatusFromCurrentException();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Derivatives>> Run(const Plan& plan, const Step& step, at::ScalarType type, bool twice) {
  std::vector<Derivatives> ranks(kRanks);
  ADJOIN_RETURN_IF_ERROR(RunRanks(kRanks, TransportKind::kInMemoryDelayed, TestSeed(1), [&](Transport& transport) {
    return RunRank(plan, step, type, twice, transport, ranks[transport.rank()]);
  }));
  return ranks;
}

void RunInType(const LossTypeCase& of, const TypeOfJob& type, Outcome& outcome) {
  OutcomeCells& cells = outcome.of_type[type.name];
  auto plan = PlanOf(JobOf(of, type.name), {{"data", kBatch}});
  if (!plan.ok()) {
    if (absl::IsUnimplemented(plan.status())) {
      cells = {"refused", "refused", "refused"};
    } else {
      absl::StrAppend(&outcome.differences, plan.status().ToString(), "\n", JobOf(of, type.name));
    }
    return;
  }
  MakeFieldsDifferentiable(*plan, "train");
  const Step step = Draw(of, *plan, type.scalar);
  const Derivatives expected = Serial(*plan, step);
  LayoutPlan of_x;
  for (const ValuePlan& value : plan->program(0).value()) {
    if (value.name() == "x") of_x = value.layout();
  }
  const bool inside = type.scalar == at::kBFloat16;
  for (const bool twice : {false, true}) {
    const auto ranks = Run(*plan, step, type.scalar, twice);
    const absl::string_view error = ranks.status().message();
    if (twice && (absl::StrContains(error, "cannot be differentiated twice") ||
                  absl::StrContains(error, "derivative for aten::"))) {
      cells.second = "no";
      return;
    }
    const std::string what = absl::StrCat(type.name, twice ? ": second derivative" : ": gradient");
    if (!ranks.ok()) {
      absl::StrAppend(&outcome.differences, what, ": ", ranks.status().ToString(), "\n");
      return;
    }
    double loss = 0;
    std::vector<Tensor> parts;
    for (const Derivatives& rank : *ranks) {
      loss += rank.loss.to(at::kDouble).item<double>();
      parts.push_back(twice ? rank.twice : rank.once);
    }
    const double whole = expected.loss.item<double>();
    const double tolerance = inside ? kTypesOfJobs[1].tolerance : type.tolerance;  // its value is a float32
    if (!(std::abs(loss - whole) <= tolerance * std::max(1.0, std::abs(whole)))) {
      absl::StrAppend(&outcome.differences, type.name, ": the loss is ", loss, ", serial ", whole, "\n");
    }
    const bool once = CompareParts(what, parts, of_x, twice ? expected.twice : expected.once,
                                   (twice ? 4 : 1) * type.tolerance, outcome.differences);
    if (!twice && inside && !once) {
      absl::StrAppend(&outcome.differences, what, " is not that of float32, rounded once\n");
    }
  }
  cells = {inside ? "float32" : "=", inside ? "float32" : "=", "="};
}

}  // namespace

std::vector<LossTypeCase> LossTypeCases() {
  return {
      {"cross_entropy", "classes", "class_weight: [1, 2, 3] label_smoothing: 0.25", Prediction::kNormal, true},
      {"cross_entropy", "probabilities", "class_weight: [1, 2, 3]", Prediction::kNormal, false},
      {"nll", "", "class_weight: [1, 2, 3]", Prediction::kLogarithms, true},
      {"mse", "", ""},
      {"l1", "", ""},
      {"huber", "", "delta: 0.5"},
      {"smooth_l1", "", "delta: 0.5"},
      {"bce", "", "", Prediction::kUnit},
      {"bce_with_logits", "", "pos_weight: [1, 2, 3]"},
      {"poisson_nll", "of logarithms", "full: true"},
      {"poisson_nll", "of rates", "log_input: false", Prediction::kPositive},
      {"gaussian_nll", "", "full: true"},
      {"kl_div", "", "", Prediction::kLogarithms},
      {"dice", "classes", "", Prediction::kProbabilities, true},
      {"dice", "numbers", "", Prediction::kProbabilities},
      {"cosine", "", ""},
  };
}

const Outcome& LossOutcomeOf(const LossTypeCase& of) {
  static auto* outcomes = new std::map<std::string, Outcome>;
  const auto [entry, unknown] = outcomes->insert({of.kind + " " + of.variant, {}});
  if (!unknown) return entry->second;
  for (const TypeOfJob& type : kTypesOfJobs) RunInType(of, type, entry->second);
  return entry->second;
}

}  // namespace adjoin
