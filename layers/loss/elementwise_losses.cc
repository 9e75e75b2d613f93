#include "layers/loss/elementwise_losses.h"

#include <utility>
#include <vector>

#include <ATen/core/Reduction.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <torch/nn/functional.h>
#include <torch/types.h>

namespace adjoin {
namespace {

namespace F = torch::nn::functional;

// `sum`: over the elements of prediction and target.
template <typename Sum>
LossFunction Divided(const LossContext& context, Sum sum) {
  return [divisor = MeanDivisor(context), sum = std::move(sum)](const torch::Tensor& prediction,
                                                                const torch::Tensor& target,
                                                                Tape&) { return sum(prediction, target) / divisor; };
}

}  // namespace

absl::StatusOr<LossFunction> BuildMse(LossContext context) {
  return Divided(context, [](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::mse_loss(prediction, target, F::MSELossFuncOptions(torch::kSum));
  });
}

absl::StatusOr<LossFunction> BuildL1(LossContext context) {
  return Divided(context, [](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::l1_loss(prediction, target, F::L1LossFuncOptions(torch::kSum));
  });
}

absl::StatusOr<LossFunction> BuildHuber(LossContext context) {
  const auto options = F::HuberLossFuncOptions().reduction(torch::kSum).delta(context.spec.delta());
  return Divided(context, [options](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::huber_loss(prediction, target, options);
  });
}

absl::StatusOr<LossFunction> BuildSmoothL1(LossContext context) {
  return Divided(context, [beta = context.spec.delta()](const torch::Tensor& prediction, const torch::Tensor& target) {
    return at::smooth_l1_loss(prediction, target, at::Reduction::Sum, beta);
  });
}

absl::StatusOr<LossFunction> BuildBce(LossContext context) {
  return Divided(context, [](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::binary_cross_entropy(prediction, target, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
  });
}

absl::StatusOr<LossFunction> BuildBceWithLogits(LossContext context) {
  torch::Tensor weight;  // of this rank's channels, to be broadcast
  if (context.spec.pos_weight_size() > 0) {
    const auto& values = context.spec.pos_weight();
    weight = torch::tensor(std::vector<double>(values.begin(), values.end()), torch::kFloat64).to(context.device);
    if (weight.numel() > 1) {
      std::vector<int64_t> shape(context.shape.size(), 1);
      shape[1] = context.box[1].size();
      weight = weight.narrow(0, context.box[1].lo, shape[1]).reshape(shape);
    }
  }
  return Divided(context, [weight](const torch::Tensor& prediction, const torch::Tensor& target) {
    auto options = F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum);
    if (weight.defined()) options.pos_weight(weight.to(prediction.scalar_type()));
    return F::binary_cross_entropy_with_logits(prediction, target, options);
  });
}

absl::StatusOr<LossFunction> BuildPoissonNll(LossContext context) {
  const Loss& spec = context.spec;
  const auto options = F::PoissonNLLLossFuncOptions()
                           .log_input(spec.log_input())
                           .full(spec.full())
                           .eps(spec.eps())
                           .reduction(torch::kSum);
  return Divided(context, [options](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::poisson_nll_loss(prediction, target, options);
  });
}

absl::StatusOr<LossFunction> BuildKlDiv(LossContext context) {
  const auto options = F::KLDivFuncOptions().reduction(torch::kSum).log_target(context.spec.log_target());
  return Divided(context, [options](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::kl_div(prediction, target, options);
  });
}

}  // namespace adjoin
