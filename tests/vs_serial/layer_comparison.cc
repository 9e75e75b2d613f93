#include "tests/vs_serial/layer_comparison.h"

#include <torch/nn/functional.h>
#include <torch/types.h>
#include <cmath>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

// Lets every convolution keep its halo apart, which a plan asks of those alone whose input another layer keeps. Returns
// whether there is one.
bool KeepHalosApart(Plan& plan) {
  bool any = false;
  for (ProgramPlan& program : *plan.mutable_program()) {
    for (LayerPlan& layer : *program.mutable_layer()) {
      if (!layer.spec().has_conv() || layer.spec().conv().transposed()) continue;
      layer.set_keeps_halo_apart(true);
      any = true;
    }
  }
  return any;
}

}  // namespace

std::string CompareLayer(const JobParts& job, RandomJobs& random, const torch::Tensor& x, Tensors parameters,
                         const torch::Tensor& y, TransportKind transport) {
  return CompareLayer(job, random, Tensors{{"x", x}}, std::move(parameters), Tensors{{"y", y}}, transport);
}

std::string CompareLayer(const JobParts& job, RandomJobs& random, const Tensors& fields, Tensors parameters,
                         const Tensors& values, TransportKind transport) {
  const std::string spec = JobText(job);
  absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", job.batch}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  bool field_grads = false;
  for (const auto& [name, field] : fields) field_grads = field_grads || field.requires_grad();
  if (field_grads) MakeFieldsDifferentiable(*plan, "train");

  StepInput input;
  Expected expected;
  torch::Tensor products = torch::zeros({}, torch::kFloat64);
  for (const auto& [name, value] : values) {
    input.cotangents[name] = random.Normal(value.sizes().vec());
    products = products + (value * input.cotangents[name]).sum();
    expected.values[name] = value.detach();
  }
  const torch::Tensor flat = torch::flatten(values.at("y"), 1);
  parameters["head.weight"] = (random.Normal({3, flat.size(1)}) * 0.3).requires_grad_();
  parameters["head.bias"] = random.Normal({3}).requires_grad_();
  const torch::Tensor head = torch::linear(flat, parameters["head.weight"], parameters["head.bias"]);
  const torch::Tensor label = random.Labels(job.batch, 3);
  const torch::Tensor loss = torch::nn::functional::cross_entropy(head, label);
  (loss + products).backward();

  input.fields = {{"label", label}};
  input.transport = transport;
  input.seed = random.Between(0, 1 << 30);
  expected.values["head"] = head.detach();
  for (const auto& [name, field] : fields) {
    input.fields[name] = field.detach();
    if (!field_grads) continue;
    expected.field_grads[name] = field.grad().defined() ? field.grad() : torch::zeros_like(field);
  }
  for (const auto& [name, parameter] : parameters) {
    input.parameters[name] = parameter.detach();
    expected.parameter_grads[name] = parameter.grad();
  }
  const auto compare = [&]() -> std::string {
    auto ranks = RunStep(*plan, input);
    if (!ranks.ok()) return absl::StrCat(ranks.status().ToString(), "\n", spec);
    std::string differences = Differences(*plan, "train", *ranks, expected, 1e-10);
    for (const RankResult& rank : *ranks) {
      if (!(std::abs(rank.loss - loss.item<double>()) <= 1e-10))
        absl::StrAppend(&differences, "loss ", rank.loss, "\n");
    }
    return differences.empty() ? "" : absl::StrCat(differences, spec);
  };
  std::string differences = compare();
  if (differences.empty() && KeepHalosApart(*plan)) {
    differences = compare();
    if (!differences.empty()) absl::StrAppend(&differences, "(with halos that are kept apart)");
  }
  return differences;
}

}  // namespace adjoin
