// Changes nothing but the layout (DistDL's transpose).
//
#include <utility>

#include "layers/layer.h"

namespace adjoin {
namespace {

class RepartitionLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildRepartition(LayerContext context) {
  return std::make_unique<RepartitionLayer>(std::move(context));
}

}  // namespace adjoin
