#include "layers/flatten.h"

#include <utility>

namespace adjoin {
namespace {

class FlattenLayer : public LayerModule {
 public:
  explicit FlattenLayer(LayerContext context) : LayerModule(std::move(context)) {
    const Shape& shape = spec().flatten();
    if (shape.arg_size() > 0) first_ = shape.arg(0);
    if (shape.arg_size() > 1) last_ = shape.arg(1);
  }

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    return Output(torch::flatten(Input(inputs, 0, tape), first_, last_), tape);
  }

 private:
  int64_t first_ = 1;
  int64_t last_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildFlatten(LayerContext context) {
  return std::make_unique<FlattenLayer>(std::move(context));
}

}  // namespace adjoin
