#include "layers/step_checks.h"

#include <cstdint>
#include <utility>

#include <ATen/ops/cat.h>

#include "layers/recompute.h"
#include "primitives/status_exception.h"

namespace adjoin {

void StepChecks::Refuse(const at::Tensor& bad, Error error) {
  if (bad.is_cpu()) {
    if (bad.item<bool>()) throw StatusException(error());
    return;
  }
  if (!IsRecomputing()) kept_.push_back({bad.detach(), std::move(error)});
}

absl::StatusOr<std::vector<double>> StepChecks::Read(const std::vector<at::Tensor>& numbers) {
  const std::vector<Check> checks = std::exchange(kept_, {});
  std::vector<at::Tensor> all;
  for (const at::Tensor& number : numbers) all.push_back(number.detach().reshape({-1}).to(at::kDouble));
  for (const Check& check : checks) all.push_back(check.bad.reshape({1}).to(at::kDouble));
  if (all.empty()) return std::vector<double>();
  const at::Tensor read = at::cat(all).to(at::kCPU);
  const double* values = read.data_ptr<double>();
  const auto count = static_cast<size_t>(read.numel()) - checks.size();
  for (size_t i = 0; i < checks.size(); ++i) {
    if (values[count + i] != 0) return checks[i].error();
  }
  return std::vector<double>(values, values + count);
}

}  // namespace adjoin
