// y = x W^T + b over the last dim, as torch.nn.Linear, with the weight cut over P_out x P_in, or stored transposed.
//
// Each rank multiplies its part of x with its block of W: a partial sum over the ranks along P_in, which the role "y"
// adds up. The plan gives the bias to the first of those ranks, so it is added once; elsewhere it has no elements.
// Any number of leading dims.
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

#include "layers/layer.h"
#include "layers/rules/roles.h"

namespace adjoin {
namespace {

class LinearLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    at::Tensor x = Input(inputs, 0, tape);
    at::Tensor weight = Parameter(kRoleWeight, tape).to(x.scalar_type());
    at::Tensor bias = Parameter(kRoleBias, tape);
    if (bias.defined()) bias = bias.to(x.scalar_type());
    if (!spec().linear().transposed()) weight = weight.t();
    at::Tensor y = runs_here() ? at::matmul(x, weight) : EmptyResult(context().compute_shape, {x, weight, bias});
    if (runs_here() && bias.defined() && bias.numel() > 0) y = y + bias;
    return Output(y, tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildLinear(LayerContext context) {
  return std::make_unique<LinearLayer>(std::move(context));
}

}  // namespace adjoin
