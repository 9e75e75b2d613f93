#include "layers/expand.h"

#include <utility>

namespace adjoin {
namespace {

class ExpandLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape).expand(context().compute_shape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildExpand(LayerContext context) {
  return std::make_unique<ExpandLayer>(std::move(context));
}

}  // namespace adjoin
