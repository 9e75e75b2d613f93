// The sum of all inputs.
//
// The plan brings all of them to the ranks of one layout. Their local tensors broadcast as the whole ones do.
#include <utility>

#include <ATen/TensorOperators.h>

#include "layers/layer.h"

namespace adjoin {
namespace {

class AddLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    at::Tensor sum = Input(inputs, 0, tape);
    for (size_t i = 1; i < inputs.size(); ++i) sum = sum + Input(inputs, static_cast<int>(i), tape);
    return Output(sum, tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildAdd(LayerContext context) {
  return std::make_unique<AddLayer>(std::move(context));
}

}  // namespace adjoin
