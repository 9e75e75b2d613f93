#include "layers/activation.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

class ReluLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    return Output(torch::relu(Input(inputs, 0, tape)), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildActivation(LayerContext context) {
  const std::string& fn = context.plan.spec().activation().fn();
  if (fn != "relu") {
    return absl::InvalidArgumentError(absl::StrCat("activation \"", fn, "\" has no builder; known: \"relu\""));
  }
  return std::make_unique<ReluLayer>(std::move(context));
}

}  // namespace adjoin
