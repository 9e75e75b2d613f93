// torch.reshape of the local tensor, and torch.flatten.
//
// The role "x" brings parts that are blocks of the result. Returns a view where it can.
#include <utility>

#include "layers/layer.h"

namespace adjoin {
namespace {

class ReshapeLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape).reshape(context().compute_shape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildReshape(LayerContext context) {
  return std::make_unique<ReshapeLayer>(std::move(context));
}

}  // namespace adjoin
