#include "layers/crop_pad.h"

#include <utility>
#include <vector>

namespace adjoin {
namespace {

class CropPadLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildCropPad(LayerContext context) {
  return std::make_unique<CropPadLayer>(std::move(context));
}

}  // namespace adjoin
