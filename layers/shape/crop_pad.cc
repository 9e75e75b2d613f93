// Layers whose outputs each are an element of the input, or zero: pad, crop, roll, flip, repeat, index_select. A
// builder for the registry.
//
// The role "x" brings what this rank's part of the result holds, zeros included: nothing is left to compute.
#include <utility>
#include <vector>

#include "layers/layer.h"

namespace adjoin {
namespace {

class CropPadLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildCropPad(LayerContext context) {
  return std::make_unique<CropPadLayer>(std::move(context));
}

}  // namespace adjoin
