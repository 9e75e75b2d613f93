#include "layers/linear.h"

#include <utility>

namespace adjoin {
namespace {

class LinearLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    torch::Tensor x = Input(inputs, 0, tape);
    torch::Tensor weight = Parameter("weight", tape).to(x.scalar_type());
    torch::Tensor bias = Parameter("bias", tape);
    if (bias.defined()) bias = bias.to(x.scalar_type());
    torch::Tensor y =
        runs_here() ? torch::matmul(x, weight.t()) : EmptyResult(context().compute_shape, {x, weight, bias});
    if (runs_here() && bias.defined() && bias.numel() > 0) y = y + bias;
    return Output(y, tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildLinear(LayerContext context) {
  return std::make_unique<LinearLayer>(std::move(context));
}

}  // namespace adjoin
