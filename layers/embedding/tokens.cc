// The same trained vectors for every sample.
//
// Local shapes: x [samples, ..., features], y [samples, count, features], the parameter "weight" [count, features]. x,
// whose values do not count, gets a gradient of zeros: it stays in the graph, so that all ranks' graphs are alike.
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>

#include "layers/layer.h"
#include "layers/rules/roles.h"

namespace adjoin {
namespace {

class TokensLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    const at::Tensor weight = Parameter(kRoleWeight, tape).to(x.scalar_type());
    const at::Tensor nothing = EmptyResult({0}, {x}).sum();
    return Output(weight.unsqueeze(0).expand(context().compute_shape) + nothing, tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildTokens(LayerContext context) {
  return std::make_unique<TokensLayer>(std::move(context));
}

}  // namespace adjoin
