#include "layers/pool.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

class MaxPoolLayer : public LayerModule {
 public:
  explicit MaxPoolLayer(LayerContext context) : LayerModule(std::move(context)) {
    const WindowSpec& window = spec().pool().window();
    kernel_.assign(window.kernel().begin(), window.kernel().end());
    stride_.assign(window.stride().begin(), window.stride().end());
    dilation_.assign(window.dilation().begin(), window.dilation().end());
  }

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    torch::Tensor x = Input(inputs, 0, tape);
    torch::Tensor y = runs_here() ? Kernel(x) : EmptyResult(context().compute_shape, {x});
    return Output(y, tape);
  }

 private:
  torch::Tensor Kernel(const torch::Tensor& x) const {
    switch (x.dim()) {
      case 3: return torch::max_pool1d(x, kernel_, stride_, /*padding=*/0, dilation_);
      case 4: return torch::max_pool2d(x, kernel_, stride_, /*padding=*/0, dilation_);
      default: return torch::max_pool3d(x, kernel_, stride_, /*padding=*/0, dilation_);
    }
  }

  std::vector<int64_t> kernel_;
  std::vector<int64_t> stride_;
  std::vector<int64_t> dilation_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPool(LayerContext context) {
  const Pool& pool = context.plan.spec().pool();
  if (pool.mode() != "max" || pool.adaptive_size_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("pooling of mode \"", pool.mode(), "\"",
                                                   pool.adaptive_size_size() > 0 ? " with adaptive_size" : "",
                                                   " has no builder; known: \"max\" with a window"));
  }
  return std::make_unique<MaxPoolLayer>(std::move(context));
}

}  // namespace adjoin
