#include "tests/vs_serial/rounded_comparison.h"

#include <algorithm>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

using at::Tensor;

at::ScalarType TypeOf(const RoundedStep& step) { return step.compute == "bfloat16" ? at::kBFloat16 : at::kFloat; }

// y and all gradients of a serial step in `type`, of numbers that the step's type has.
Tensors Serial(const RoundedStep& step, at::ScalarType type) {
  const auto leaf = [&](const Tensor& whole) { return whole.detach().to(TypeOf(step)).to(type).requires_grad_(); };
  const Tensor x = leaf(step.x);
  Tensors parameters;
  for (const auto& [name, tensor] : step.parameters) parameters[name] = leaf(tensor);
  const Tensor y = step.serial(x, parameters);
  y.backward(step.cotangent.to(TypeOf(step)).to(y.scalar_type()));
  Tensors results = {{"y", y.detach()}, {"x", x.grad()}};
  for (const auto& [name, tensor] : parameters) results[name] = tensor.grad();
  return results;
}

double Distance(const Tensor& actual, const Tensor& expected, const Tensor& whole) {
  if (expected.numel() == 0) return 0;
  const double distance = (actual.to(at::kDouble) - expected).abs().max().item<double>();
  return distance / whole.abs().max().item<double>();
}

}  // namespace

absl::StatusOr<Errors> ErrorsOnRanks(const RoundedStep& step) {
  const std::string text = absl::StrReplaceAll(
      JobText(step.job),
      {{"compute: \"float64\"", absl::StrCat("compute: \"", step.compute, "\" params: \"float32\"")}});
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, PlanOf(text, {{"data", step.job.batch}}));
  MakeFieldsDifferentiable(plan, "train");
  StepInput input;
  input.fields = {{"x", step.x.detach().to(TypeOf(step))}, {"label", at::zeros({step.x.size(0)}, at::kLong)}};
  const Tensors exact = Serial(step, at::kDouble);
  // The head is as good as cut off: its gradients would be of no interest here.
  const int64_t features = exact.at("y").numel() / exact.at("y").size(0);
  input.parameters = {{"head.weight", at::zeros({3, features})}, {"head.bias", at::zeros({3})}};
  for (const auto& [name, tensor] : step.parameters) {
    input.parameters[name] = tensor.detach().to(TypeOf(step)).to(at::kFloat);
  }
  input.cotangents = {{"y", step.cotangent.to(TypeOf(step))}};
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<RankResult> ranks, RunStep(plan, input));
  Errors errors;
  const auto add = [&](const std::string& name, const LayoutPlan& layout_plan, const auto& actual) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(layout_plan));
    const Tensor& whole = exact.at(name);
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
      const Tensor expected = PartOf(whole.reshape(layout.shape()), layout, rank);
      if (expected.numel() == 0) continue;
      errors[name] = std::max(errors[name], Distance(actual(ranks[rank]), expected, whole));
    }
    return absl::OkStatus();
  };
  for (const ValuePlan& value : plan.program(0).value()) {
    if (value.name() == "y") {
      ADJOIN_RETURN_IF_ERROR(add("y", value.layout(), [](const RankResult& rank) { return rank.values.at("y"); }));
    }
    if (value.name() == "x") {
      ADJOIN_RETURN_IF_ERROR(add("x", value.layout(), [](const RankResult& rank) { return rank.field_grads.at("x"); }));
    }
  }
  for (int i = 0; i < plan.parameter_size(); ++i) {
    if (exact.count(plan.parameter(i).name()) == 0) continue;
    ADJOIN_RETURN_IF_ERROR(add(plan.parameter(i).name(), plan.parameter(i).home(),
                               [i](const RankResult& rank) { return rank.parameter_grad[i]; }));
  }
  return errors;
}

Errors SerialErrors(const RoundedStep& step) {
  const Tensors exact = Serial(step, at::kDouble), rounded = Serial(step, TypeOf(step));
  Errors errors;
  for (const auto& [name, whole] : exact) errors[name] = Distance(rounded.at(name), whole, whole);
  return errors;
}

}  // namespace adjoin
