#include "layers/conv.h"

#include <utility>

#include "primitives/geometry/box.h"
#include "primitives/geometry/transposed_window.h"

namespace adjoin {
namespace {

class ConvLayer : public LayerModule {
 public:
  explicit ConvLayer(LayerContext context) : LayerModule(std::move(context)) {
    const WindowSpec& window = spec().conv().window();
    stride_.assign(window.stride().begin(), window.stride().end());
    dilation_.assign(window.dilation().begin(), window.dilation().end());
    transposed_ = spec().conv().transposed();
  }

  torch::Tensor Forward(const std::vector<torch::Tensor>& inputs, Tape& tape) override {
    torch::Tensor x = Input(inputs, 0, tape);
    torch::Tensor weight = Parameter("weight", tape);
    torch::Tensor bias = Parameter("bias", tape);
    if (bias.defined() && bias.numel() == 0) bias = torch::Tensor();  // another rank's of this sum adds it
    return Output(runs_here() ? Kernel(x, weight, bias) : EmptyResult(context().compute_shape, {x, weight}), tape);
  }

 private:
  torch::Tensor Kernel(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) const {
    if (x.numel() > 0 && weight.numel() > 0 && !transposed_) return Convolution(x, weight, bias);
    torch::Tensor y;
    if (x.numel() > 0 && weight.numel() > 0) {
      y = torch::constant_pad_nd(Convolution(x, weight, {}), PaddingToOutputs());
    } else {
      // No channels, or no input that would give to these outputs.
      y = torch::zeros(context().compute_shape, x.options()) + EmptyResult({0}, {x, weight}).sum();
    }
    if (!bias.defined()) return y;
    std::vector<int64_t> channels(y.dim(), 1);
    channels[1] = bias.numel();
    return y + bias.reshape(channels);
  }

  // Its groups are those of this rank.
  torch::Tensor Convolution(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) const {
    const int64_t groups = (transposed_ ? context().compute_shape[1] : x.size(1)) / weight.size(1);
    return torch::convolution(x, weight, bias, stride_, /*padding=*/{0}, dilation_, transposed_,
                              /*output_padding=*/{0}, groups);
  }

  // From what this rank's inputs give to, to its outputs: cells to add, or, negative, to leave out. Last dim first.
  std::vector<int64_t> PaddingToOutputs() const {
    std::vector<int64_t> padding;
    const std::map<int, LocalReads>& reads = context().reads[0];
    for (auto dim = reads.rbegin(); dim != reads.rend(); ++dim) {
      const Interval outputs = dim->second.outputs;
      const auto* window = dim->second.reading.As<TransposedWindow>();
      const Interval written = window->Writes(window->Reads(outputs, dim->second.inputs));
      padding.push_back(written.lo - outputs.lo);
      padding.push_back(outputs.hi - written.hi);
    }
    return padding;
  }

  std::vector<int64_t> stride_;
  std::vector<int64_t> dilation_;
  bool transposed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildConv(LayerContext context) {
  return std::make_unique<ConvLayer>(std::move(context));
}

}  // namespace adjoin
