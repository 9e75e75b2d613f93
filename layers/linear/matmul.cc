// The product of the local parts of two inputs, of which the plan makes factors that belong together.
//
// Local shapes: [samples, ..., m, k] and [samples, ..., k, n]. It can be differentiated any number of times.
#include <utility>

#include <ATen/ops/matmul.h>

#include "layers/layer.h"

namespace adjoin {
namespace {

class MatmulLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor a = Input(inputs, 0, tape);
    const at::Tensor b = Input(inputs, 1, tape);
    return Output(runs_here() ? at::matmul(a, b) : EmptyResult(context().compute_shape, {a, b}), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildMatmul(LayerContext context) {
  return std::make_unique<MatmulLayer>(std::move(context));
}

}  // namespace adjoin
