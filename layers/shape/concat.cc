// torch.cat of all inputs.
//
// The plan brings to a rank the cells of each input that its part of the result holds, which may be none.
#include <utility>

#include <ATen/ops/cat.h>

#include "layers/layer.h"

namespace adjoin {
namespace {

class ConcatLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    std::vector<at::Tensor> parts;
    for (size_t i = 0; i < inputs.size(); ++i) parts.push_back(Input(inputs, static_cast<int>(i), tape));
    return Output(at::cat(parts, spec().concat().arg(0)), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConcat(LayerContext context) {
  return std::make_unique<ConcatLayer>(std::move(context));
}

}  // namespace adjoin
