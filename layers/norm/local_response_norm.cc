// Local response normalisation, as torch.nn.LocalResponseNorm:
//
//   y[c] = x[c] / (k + alpha / size * sum of x[j]^2 for j from c - size / 2 to c + (size - 1) / 2)^beta
//
// The role "x" brings the neighbouring channels, zeros beyond the first and the last one. Local shapes: x [n, channels
// + size - 1, ...], y [n, channels, ...].
#include <memory>

#include <ATen/TensorOperators.h>
#include <ATen/ops/pow.h>

#include "absl/status/statusor.h"
#include "layers/layer.h"
#include "layers/sum_type.h"

namespace adjoin {
namespace {

constexpr int kChannelDim = 1;

class LocalResponseNormLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  at::Tensor Forward(const std::vector<at::Tensor>& inputs, Tape& tape) override {
    const at::Tensor read = Input(inputs, 0, tape);
    if (!runs_here()) return Output(EmptyResult(context().compute_shape, {read}), tape);
    const LocalResponseNorm& norm = spec().local_response_norm();
    const int64_t size = norm.size(), channels = context().compute_shape[kChannelDim];
    const at::Tensor x = InSumType(read);
    const at::Tensor squares = x.square().unfold(kChannelDim, size, 1).sum(-1);
    const at::Tensor divisor = at::pow(norm.k() + norm.alpha() / static_cast<double>(size) * squares, norm.beta());
    const at::Tensor y = x.narrow(kChannelDim, size / 2, channels) / divisor;
    return Output(y.to(read.scalar_type()), tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildLocalResponseNorm(LayerContext context) {
  return std::make_unique<LocalResponseNormLayer>(std::move(context));
}

}  // namespace adjoin
