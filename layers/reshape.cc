#include "layers/reshape.h"

#include <utility>

namespace adjoin {
namespace {

class ReshapeLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape).reshape(context().compute_shape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildReshape(LayerContext context) {
  return std::make_unique<ReshapeLayer>(std::move(context));
}

}  // namespace adjoin
