// torch.nn.PixelShuffle and PixelUnshuffle over any number of spatial dims: builders for the registry.
//
// The plan cuts the local tensor between groups of r^k channels, or between blocks of r pixels per dim.
#include <utility>

#include "layers/layer.h"

namespace adjoin {
namespace {

// [n, c, r, ..., r, s1, ..., sk], with a dim of r for each spatial dim.
std::vector<int64_t> SplitShape(const at::Tensor& coarse, int64_t factor, int64_t channels) {
  std::vector<int64_t> shape = {coarse.size(0), channels};
  shape.insert(shape.end(), coarse.dim() - 2, factor);
  for (int64_t dim = 2; dim < coarse.dim(); ++dim) shape.push_back(coarse.size(dim));
  return shape;
}

class PixelShuffleLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    const std::vector<int64_t>& y = context().compute_shape;
    // Each spatial dim is followed by its factor.
    std::vector<int64_t> order = {0, 1};
    const int64_t spatial = x.dim() - 2;
    for (int64_t dim = 0; dim < spatial; ++dim) {
      order.push_back(2 + spatial + dim);
      order.push_back(2 + dim);
    }
    return Output(x.reshape(SplitShape(x, spec().pixel_shuffle().arg(0), y[1])).permute(order).reshape(y), tape);
  }
};

class PixelUnshuffleLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor x = Input(inputs, 0, tape);
    const int64_t factor = spec().pixel_unshuffle().arg(0), spatial = x.dim() - 2;
    std::vector<int64_t> split = {x.size(0), x.size(1)}, order = {0, 1};
    for (int64_t dim = 0; dim < spatial; ++dim) {
      split.push_back(x.size(2 + dim) / factor);
      split.push_back(factor);
      order.push_back(3 + 2 * dim);
    }
    for (int64_t dim = 0; dim < spatial; ++dim) order.push_back(2 + 2 * dim);
    return Output(x.reshape(split).permute(order).reshape(context().compute_shape), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPixelShuffle(LayerContext context) {
  return std::make_unique<PixelShuffleLayer>(std::move(context));
}

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPixelUnshuffle(LayerContext context) {
  return std::make_unique<PixelUnshuffleLayer>(std::move(context));
}

}  // namespace adjoin
