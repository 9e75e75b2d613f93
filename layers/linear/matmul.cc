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
    if (!runs_here()) return Output(EmptyResult(context().compute_shape, {a, b}), tape);
    // One matrix for all, as of a function of weights, is not copied for each sample.
    const bool is_one = b.numel() == b.size(-2) * b.size(-1) && b.numel() > 0;
    return Output(at::matmul(a, is_one ? b.reshape({b.size(-2), b.size(-1)}) : b), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildMatmul(LayerContext context) {
  return std::make_unique<MatmulLayer>(std::move(context));
}

}  // namespace adjoin
