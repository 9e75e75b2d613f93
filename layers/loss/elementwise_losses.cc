#include "layers/loss/elementwise_losses.h"

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/core/Reduction.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <torch/nn/functional.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;

// `sum`: over the elements of prediction and target.
template <typename Sum>
LossFunction Divided(const LossContext& context, Sum sum) {
  return [divisor = MeanDivisor(context), sum = std::move(sum)](const LossTensors& x, Tape&) {
    return sum(x.prediction, x.target) / divisor;
  };
}

// A copy of the variance, at least `eps`. Its gradient is that of the variance, also where this is less, as PyTorch's.
torch::Tensor VarianceAbove(const LossContext& context, const torch::Tensor& given, double eps) {
  const torch::Tensor negative = given.detach() < 0;
  context.checks->Refuse(
      negative.any(), [name = context.name, layer = context.spec.variance(), given = given.detach(), negative] {
        return absl::InvalidArgumentError(absl::StrCat(
            name, ": the variance, layer \"", layer, "\", holds ", given.masked_select(negative)[0].item<double>(),
            "; a variance must not be negative: let the layer end in an activation such as softplus"));
      });
  torch::Tensor variance = given.clone();
  torch::NoGradGuard no_grad;
  variance.clamp_min_(eps);
  return variance;
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

absl::StatusOr<LossFunction> BuildGaussianNll(LossContext context) {
  return LossFunction([context = std::move(context)](const LossTensors& x, Tape&) {
    const torch::Tensor variance = VarianceAbove(context, x.variance, context.spec.eps());
    const torch::Tensor each = variance.log() + (x.prediction - x.target).square() / variance;
    const double constant = context.spec.full() ? std::log(2 * M_PI) * static_cast<double>(each.numel()) : 0;
    return (each.sum() + constant) / (2 * MeanDivisor(context));
  });
}

absl::StatusOr<LossFunction> BuildKlDiv(LossContext context) {
  const auto options = F::KLDivFuncOptions().reduction(torch::kSum).log_target(context.spec.log_target());
  return Divided(context, [options](const torch::Tensor& prediction, const torch::Tensor& target) {
    return F::kl_div(prediction, target, options);
  });
}

}  // namespace adjoin
