// The product of all inputs.
//
// The plan brings all of them to the ranks of one layout. Their local tensors broadcast as the whole ones do. It can be
// differentiated any number of times.
#include <utility>

#include <ATen/TensorOperators.h>

#include "layers/layer.h"

namespace adjoin {
namespace {

class MultiplyLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    at::Tensor product = Input(inputs, 0, tape);
    for (size_t i = 1; i < inputs.size(); ++i) product = product * Input(inputs, static_cast<int>(i), tape);
    return Output(product, tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildMultiply(LayerContext context) {
  return std::make_unique<MultiplyLayer>(std::move(context));
}

}  // namespace adjoin
