// torch.expand of the local tensor.
//
// The role "x" brings what this rank repeats: 1 element in dims that grow. Returns a view, which takes no memory; its
// gradient is summed over what was repeated, on this rank by LibTorch and over ranks by the adjoint of "x".
#include <utility>

#include "layers/layer.h"

namespace adjoin {
namespace {

class ExpandLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape).expand(context().compute_shape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildExpand(LayerContext context) {
  return std::make_unique<ExpandLayer>(std::move(context));
}

}  // namespace adjoin
