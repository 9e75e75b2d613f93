#include "layers/batch_norm.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

class BatchNormLayer : public LayerModule {
 public:
  explicit BatchNormLayer(LayerContext context) : LayerModule(std::move(context)) {
    const auto& shape = this->context().plan.compute().shape();
    for (int dim = 0; dim < shape.size(); ++dim) {
      if (dim == 1) continue;
      summed_dims_.push_back(dim);
      count_ *= static_cast<double>(shape.Get(dim));
    }
  }

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    const torch::Tensor x = Input(inputs, 0, tape);
    const Normalisation of_batch = context().training ? OfBatch(x, tape) : OfRunningStatistics(x);
    const torch::Tensor weight = Parameter("weight", tape);
    const torch::Tensor bias = Parameter("bias", tape);
    torch::Tensor scale = torch::rsqrt(of_batch.variance + spec().norm().eps());
    if (weight.defined()) scale = scale * weight;
    torch::Tensor y = of_batch.centered * PerChannel(scale.to(x.scalar_type()), x);
    if (bias.defined()) y = y + PerChannel(bias, x);
    return Output(y, tape);
  }

 private:
  struct Normalisation {
    torch::Tensor centered;  // x without the mean
    torch::Tensor variance;  // float64
  };

  static torch::Tensor PerChannel(const torch::Tensor& values, const torch::Tensor& x) {
    std::vector<int64_t> shape(x.dim(), 1);
    shape[1] = values.numel();
    return values.reshape(shape);
  }

  // Float64, over all ranks.
  torch::Tensor Sum(const std::string& role, const torch::Tensor& x, Tape& tape) {
    const torch::Tensor own = x.sum(summed_dims_, /*keepdim=*/false, torch::kFloat64);
    return Move(role, Move(role + "_once", own, tape), tape);
  }

  Normalisation OfBatch(const torch::Tensor& x, Tape& tape) {
    const torch::Tensor mean = Sum("mean", x, tape) / count_;
    // A mean of x's type may be off by much of a standard deviation: what it lacks is taken off afterwards, and carries
    // the gradient.
    const torch::Tensor near = mean.detach().to(x.scalar_type());
    const torch::Tensor rest = (mean - near.to(torch::kFloat64)).to(x.scalar_type());
    const torch::Tensor centered = x - PerChannel(near, x) - PerChannel(rest, x);
    const torch::Tensor squares = Sum("variance", centered.square(), tape);
    UpdateRunningStatistics(mean, squares / (count_ - 1));
    return {centered, squares / count_};
  }

  Normalisation OfRunningStatistics(const torch::Tensor& x) const {
    return {x - PerChannel(Buffer("running_mean"), x), Buffer("running_var").to(torch::kFloat64)};
  }

  void UpdateRunningStatistics(const torch::Tensor& mean, const torch::Tensor& unbiased_variance) const {
    torch::NoGradGuard no_grad;
    const double momentum = spec().norm().momentum();
    const auto update = [momentum](torch::Tensor running, const torch::Tensor& of_batch) {
      running.copy_((1 - momentum) * running.to(torch::kFloat64) + momentum * of_batch);
    };
    update(Buffer("running_mean"), mean);
    update(Buffer("running_var"), unbiased_variance);
    Buffer("num_batches_tracked").add_(1);
  }

  // Where it lives is where it is used.
  torch::Tensor Buffer(const std::string& role) const { return context().parameters.at(role); }

  std::vector<int64_t> summed_dims_;
  double count_ = 1;  // elements per channel, over all ranks
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
