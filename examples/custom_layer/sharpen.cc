#include "examples/custom_layer/sharpen.h"

#include <ATen/TensorOperators.h>
#include <string>
#include <utility>
#include <vector>

#include "examples/custom_layer/sharpen_roles.h"

namespace adjoin {
namespace {

class SharpenLayer : public LayerModule {
 public:
  explicit SharpenLayer(LayerContext context)
      : LayerModule(std::move(context)), radius_(std::stoll(spec().custom().arg().at("radius"))) {}

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    // With the neighbours' pixels, as the rule asked.
    at::Tensor x = Input(inputs, 0, tape);
    at::Tensor amount = Parameter(kRoleAmount, tape);
    if (!runs_here()) return Output(EmptyResult(context().compute_shape, {x, amount}), tape);
    at::Tensor centre = x.narrow(-1, radius_, context().compute_shape.back());
    at::Tensor mean = x.unfold(-1, 2 * radius_ + 1, 1).mean(-1);
    std::vector<int64_t> per_channel(x.dim(), 1);
    per_channel[1] = -1;
    return Output(centre + amount.reshape(per_channel) * (centre - mean), tape);
  }

 private:
  const int64_t radius_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildSharpen(LayerContext context) {
  return std::make_unique<SharpenLayer>(std::move(context));
}

}  // namespace adjoin
