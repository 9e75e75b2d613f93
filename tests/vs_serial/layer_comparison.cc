#include "tests/vs_serial/layer_comparison.h"

#include <cmath>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/plan.pb.h"

namespace adjoin {

std::string CompareLayer(const JobParts& job, RandomJobs& random, const torch::Tensor& x, Tensors parameters,
                         const torch::Tensor& y, TransportKind transport) {
  const std::string spec = JobText(job);
  absl::StatusOr<Plan> plan = PlanOf(spec, {{"data", job.batch}});
  if (!plan.ok()) return absl::StrCat(plan.status().ToString(), "\n", spec);
  MakeFieldsDifferentiable(*plan, "train");

  const torch::Tensor cotangent = random.Normal(y.sizes().vec());
  const torch::Tensor flat = torch::flatten(y, 1);
  parameters["head.weight"] = (random.Normal({3, flat.size(1)}) * 0.3).requires_grad_();
  parameters["head.bias"] = random.Normal({3}).requires_grad_();
  const torch::Tensor head = torch::linear(flat, parameters["head.weight"], parameters["head.bias"]);
  const torch::Tensor label = random.Labels(job.batch, 3);
  const torch::Tensor loss = torch::nn::functional::cross_entropy(head, label);
  (loss + (y * cotangent).sum()).backward();

  StepInput input;
  input.fields = {{"x", x.detach()}, {"label", label}};
  input.cotangents = {{"y", cotangent}};
  input.transport = transport;
  input.seed = random.Between(0, 1 << 30);
  Expected expected;
  expected.values = {{"y", y.detach()}, {"head", head.detach()}};
  expected.field_grads = {{"x", x.grad()}};
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

}  // namespace adjoin
