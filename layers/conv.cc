#include "layers/conv.h"

#include <utility>

#include "absl/status/status.h"

namespace adjoin {
namespace {

class ConvLayer : public LayerModule {
 public:
  explicit ConvLayer(LayerContext context) : LayerModule(std::move(context)) {
    const WindowSpec& window = spec().conv().window();
    stride_.assign(window.stride().begin(), window.stride().end());
    dilation_.assign(window.dilation().begin(), window.dilation().end());
    groups_ = spec().conv().has_groups() ? spec().conv().groups() : 1;
  }

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    torch::Tensor x = Input(inputs, 0, tape);
    torch::Tensor weight = Parameter("weight", tape);
    torch::Tensor bias = Parameter("bias", tape);
    torch::Tensor y = runs_here() ? torch::convolution(x, weight, bias, stride_, /*padding=*/{0}, dilation_,
                                                       /*transposed=*/false, /*output_padding=*/{0}, groups_)
                                  : EmptyResult(context().compute_shape, {x, weight, bias});
    return Output(y, tape);
  }

 private:
  std::vector<int64_t> stride_;
  std::vector<int64_t> dilation_;
  int64_t groups_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConv(LayerContext context) {
  if (context.plan.spec().conv().transposed()) {
    return absl::InvalidArgumentError("a transposed convolution has no builder; known: a convolution");
  }
  return std::make_unique<ConvLayer>(std::move(context));
}

}  // namespace adjoin
