#include "layers/loss/class_losses.h"

#include <limits>
#include <utility>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

#include "layers/loss/loss_roles.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;

class ClassLoss {
 public:
  explicit ClassLoss(LossContext context) : context_(std::move(context)) {
    const Loss& spec = context_.spec;
    // LibTorch's own default, -100, would leave out what the job did not say to leave out.
    ignored_ = spec.has_ignore_index() ? spec.ignore_index() : std::numeric_limits<int64_t>::min();
    if (spec.class_weight_size() > 0) {
      weight_ =
          torch::tensor(std::vector<double>(spec.class_weight().begin(), spec.class_weight().end()), torch::kFloat64)
              .to(context_.device);
    }
  }

  torch::Tensor Share(const torch::Tensor& prediction, const torch::Tensor& given, Tape& tape) const {
    const bool probabilities = given.is_floating_point();
    const torch::Tensor target = probabilities ? given : CheckedClasses(context_, given);
    const torch::Tensor sum = Sum(prediction, target);
    if (context_.spec.reduction() == "sum") return sum;
    const bool all_count = probabilities || (!weight_.defined() && !context_.spec.has_ignore_index());
    if (all_count) return sum / (MeanDivisor(context_) / static_cast<double>(context_.shape[1]));
    const torch::Tensor count = Count(target, tape);
    if (!context_.takes_part) return sum;  // there is nothing to divide
    return count.is_cpu() ? sum / count.item<double>() : sum / count.reshape({}).to(sum.scalar_type());
  }

 private:
  torch::Tensor Sum(const torch::Tensor& prediction, const torch::Tensor& target) const {
    // LibTorch refuses a prediction without classes, which a rank outside the layout holds.
    if (prediction.numel() == 0) return prediction.sum();
    const torch::Tensor weight = weight_.defined() ? weight_.to(prediction.scalar_type()) : weight_;
    if (context_.spec.kind() == "nll") {
      return F::nll_loss(prediction, target,
                         F::NLLLossFuncOptions().weight(weight).ignore_index(ignored_).reduction(torch::kSum));
    }
    return F::cross_entropy(prediction, target,
                            F::CrossEntropyFuncOptions()
                                .weight(weight)
                                .ignore_index(ignored_)
                                .label_smoothing(context_.spec.label_smoothing())
                                .reduction(torch::kSum));
  }

  // The weights of the targets that count, over all ranks: one number, or none on a rank that takes no part. It has no
  // gradient.
  torch::Tensor Count(const torch::Tensor& target, Tape& tape) const {
    torch::NoGradGuard no_grad;
    const torch::Tensor part = OwnCount(target).reshape({1}).narrow(0, 0, context_.takes_part ? 1 : 0);
    return MoveForLoss(context_, kRoleCount, part, tape);
  }

  torch::Tensor OwnCount(const torch::Tensor& target) const {
    const torch::Tensor counts = target != ignored_;
    if (!target.is_cpu()) {
      // Without a tensor whose extent the host would wait for.
      if (!weight_.defined()) return counts.sum(torch::kFloat64);
      const torch::Tensor weights = weight_.index_select(0, target.masked_fill(counts.logical_not(), 0).flatten());
      return weights.masked_fill(counts.logical_not().flatten(), 0).sum();
    }
    const torch::Tensor counted = target.masked_select(counts);
    return weight_.defined() ? weight_.index_select(0, counted).sum()
                             : torch::scalar_tensor(counted.numel(), torch::kFloat64);
  }

  LossContext context_;
  int64_t ignored_ = 0;
  torch::Tensor weight_;  // float64; undefined where every class weighs 1
};

}  // namespace

absl::StatusOr<LossFunction> BuildClassLoss(LossContext context) {
  return LossFunction([loss = ClassLoss(std::move(context))](const LossTensors& x, Tape& tape) {
    return loss.Share(x.prediction, x.target, tape);
  });
}

}  // namespace adjoin
