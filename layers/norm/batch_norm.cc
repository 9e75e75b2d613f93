#include "layers/norm/batch_norm.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/rsqrt.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "layers/norm/channel_statistics.h"
#include "layers/norm/norm_roles.h"
#include "layers/recompute.h"
#include "layers/rules/roles.h"
#include "layers/sum_type.h"

namespace adjoin {
namespace {

class BatchNormLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor own = Input(inputs, 0, tape);
    const at::Tensor x = InSumType(own);
    ChannelStatistics pass;
    at::Tensor mean, variance;
    if (context().training) {
      const at::Tensor parts = Move(kRoleStatistics, InTheirPlace(pass.Of(x)), tape);
      if (parts.numel() > 0) {
        const at::Tensor all = MergeStatistics(parts);
        mean = all[1];
        variance = all[2] / all[0];
        UpdateRunningStatistics(mean, all[2] / (all[0] - 1));
      } else {
        mean = variance = EmptyResult({0}, {parts});
        UpdateRunningStatistics(mean, variance);
      }
    } else {
      mean = Buffer(kRoleRunningMean).to(at::kDouble);
      variance = Buffer(kRoleRunningVar).to(at::kDouble);
    }
    const at::Tensor weight = Parameter(kRoleWeight, tape);
    const at::Tensor bias = Parameter(kRoleBias, tape);
    at::Tensor scale = at::rsqrt(variance + spec().norm().eps());
    if (weight.defined()) scale = scale * weight;
    return Output(pass.Normalised(x, mean, scale, bias).to(own.scalar_type()), tape);
  }

 private:
  // [1, 3, c], as the movement takes them; nothing on a rank that takes no part.
  at::Tensor InTheirPlace(const at::Tensor& own) const {
    const auto& ranks = context().plan.compute().rank();
    const bool takes_part = std::find(ranks.begin(), ranks.end(), context().rank) != ranks.end();
    return takes_part ? own.unsqueeze(0) : EmptyResult({0, 0, 0}, {own});
  }

  void UpdateRunningStatistics(const at::Tensor& mean, const at::Tensor& unbiased_variance) const {
    if (IsRecomputing()) return;
    at::NoGradGuard no_grad;
    const double momentum = spec().norm().momentum();
    const auto update = [momentum](at::Tensor running, const at::Tensor& of_batch) {
      running.copy_((1 - momentum) * running.to(at::kDouble) + momentum * of_batch);
    };
    update(Buffer(kRoleRunningMean), mean);
    update(Buffer(kRoleRunningVar), unbiased_variance);
    Buffer(kRoleBatchesTracked).add_(1);
  }

  // Where it lives is where it is used.
  at::Tensor Buffer(const std::string& role) const { return context().parameters.at(role); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildBatchNorm(LayerContext context) {
  const std::string& kind = context.plan.spec().norm().kind();
  if (kind != "batch") {
    return absl::InvalidArgumentError(
        absl::StrCat("normalisation of kind \"", kind, "\" has no builder; known: \"batch\""));
  }
  return std::make_unique<BatchNormLayer>(std::move(context));
}

}  // namespace adjoin
