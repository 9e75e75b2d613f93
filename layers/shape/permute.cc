// torch.permute of the local tensor.
//
// Returns a view: local shapes are each other with the dims in another order.
#include <utility>

#include "layers/layer.h"

namespace adjoin {
namespace {

class PermuteLayer : public LayerModule {
 public:
  explicit PermuteLayer(LayerContext context)
      : LayerModule(std::move(context)), order_(spec().permute().arg().begin(), spec().permute().arg().end()) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    return Output(Input(inputs, 0, tape).permute(order_), tape);
  }

 private:
  const std::vector<int64_t> order_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPermute(LayerContext context) {
  return std::make_unique<PermuteLayer>(std::move(context));
}

}  // namespace adjoin
