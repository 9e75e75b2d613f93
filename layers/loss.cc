#include "layers/loss.h"

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

torch::Tensor CrossEntropySum(const torch::Tensor& prediction, const torch::Tensor& target) {
  // LibTorch refuses a prediction without classes, which a rank outside the layout holds.
  if (prediction.numel() == 0) return prediction.sum();
  // LibTorch would leave out -100, which then would count in the mean; no class is left out unless the job says so.
  return torch::nn::functional::cross_entropy(prediction, target,
                                              torch::nn::functional::CrossEntropyFuncOptions()
                                                  .reduction(torch::kSum)
                                                  .ignore_index(std::numeric_limits<int64_t>::min()));
}

}  // namespace

absl::StatusOr<LossFunction> LossFor(const Loss& spec) {
  if (spec.kind() == "cross_entropy") return LossFunction(CrossEntropySum);
  return absl::InvalidArgumentError(
      absl::StrCat("loss \"", spec.kind(), "\" has no implementation; known: \"cross_entropy\""));
}

}  // namespace adjoin
