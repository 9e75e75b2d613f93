#include "layers/conv/convolution_kernel.h"

#include <utility>

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "primitives/libtorch_versions.h"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlock = 16;

// Whether the blocks of channels in dim 0 of the weight are open; the kernel that gives to a convolution's input reads
// them.
bool HasOpenBlocks(const at::Tensor& weight, const ConvolutionGeometry& geometry) {
  const int64_t channels = weight.size(0) / geometry.groups;
  return geometry.whole_blocks && weight.is_cpu() && weight.scalar_type() == at::kFloat &&
         (channels == 4 || channels == 8);
}

// The groups of `dim` as a dim of its own, before that of their channels.
at::Tensor Grouped(const at::Tensor& x, int64_t dim, int64_t groups) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[dim] /= groups;
  shape.insert(shape.begin() + dim, groups);
  return x.reshape(shape);
}

// Each group's channels, in `dim`, with zeros behind them, so that there are kBlock.
at::Tensor InWholeBlocks(const at::Tensor& x, int64_t dim, int64_t groups) {
  std::vector<int64_t> padding(2 * (x.dim() - dim), 0);  // last dim first, before and behind it
  padding.back() = kBlock - x.size(dim) / groups;
  return at::constant_pad_nd(Grouped(x, dim, groups), padding, 0).flatten(dim, dim + 1);
}

// The first `channels` of each group; undefined of an undefined tensor.
at::Tensor OutOfBlocks(const at::Tensor& x, int64_t dim, int64_t groups, int64_t channels) {
  return x.defined() ? Grouped(x, dim, groups).narrow(dim + 1, 0, channels).flatten(dim, dim + 1) : x;
}

at::Tensor PlainConvolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const ConvolutionGeometry& geometry) {
  return at::convolution(x, weight, bias, geometry.stride, geometry.padding, geometry.dilation, geometry.transposed,
                         /*output_padding=*/{0}, geometry.groups);
}

ConvolutionGradients PlainGradients(const at::Tensor& of_result, const at::Tensor& x, const at::Tensor& weight,
                                    const ConvolutionGeometry& geometry, ConvolutionGradientsWanted wanted) {
  const std::vector<int64_t> no_output_padding(geometry.stride.size(), 0), bias_shape = {of_result.size(1)};
  auto [of_x, of_weight, of_bias] =
      at::convolution_backward(of_result, x, weight, wanted.bias ? c10::OptionalIntArrayRef(bias_shape) : c10::nullopt,
                               geometry.stride, geometry.padding, geometry.dilation, geometry.transposed,
                               no_output_padding, geometry.groups, {wanted.x, wanted.weight, wanted.bias});
  const auto or_none = [](bool is_wanted, const at::Tensor& made) { return is_wanted ? made : at::Tensor(); };
  return {or_none(wanted.x, of_x), or_none(wanted.weight, of_weight), or_none(wanted.bias, of_bias)};
}

// Forward as at::convolution, or, where it is transposed, with whole blocks; backward by ConvolveBackward.
class ConvolveFunction : public torch::autograd::Function<ConvolveFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const ConvolutionGeometry& geometry) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["stride"] = geometry.stride;
    ctx->saved_data["padding"] = geometry.padding;
    ctx->saved_data["dilation"] = geometry.dilation;
    ctx->saved_data["transposed"] = geometry.transposed;
    ctx->saved_data["groups"] = geometry.groups;
    ctx->saved_data["whole_blocks"] = geometry.whole_blocks;
    ctx->saved_data["biased"] = bias.numel() > 0;
    const at::Tensor added = bias.numel() > 0 ? bias : at::Tensor();
    if (!geometry.transposed) return PlainConvolution(x, weight, added, geometry);
    return PlainConvolution(InWholeBlocks(x, 1, geometry.groups), InWholeBlocks(weight, 0, geometry.groups), added,
                            geometry);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const ConvolutionGeometry geometry = {
        ctx->saved_data["stride"].toIntVector(),   ctx->saved_data["padding"].toIntVector(),
        ctx->saved_data["dilation"].toIntVector(), ctx->saved_data["transposed"].toBool(),
        ctx->saved_data["groups"].toInt(),         ctx->saved_data["whole_blocks"].toBool()};
    ConvolutionGradients made = ConvolveBackward(gradients[0], saved[0], saved[1], geometry,
                                                 {ctx->needs_input_grad(0), ctx->needs_input_grad(1),
                                                  ctx->saved_data["biased"].toBool() && ctx->needs_input_grad(2)});
    return {made.x, made.weight, made.bias, at::Tensor()};
  }
};

}  // namespace

bool ConvolutionsNeedWholeBlocks() {
  static const bool kNeeded = OneDnnLeavesBlocksOpen();
  return kNeeded;
}

at::Tensor Convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const ConvolutionGeometry& geometry) {
  if (!HasOpenBlocks(weight, geometry)) return PlainConvolution(x, weight, bias, geometry);
  // A Function takes no undefined tensor.
  return ConvolveFunction::apply(x, weight, bias.defined() ? bias : at::empty({0}, x.options()), geometry);
}

ConvolutionGradients ConvolveBackward(const at::Tensor& of_result, const at::Tensor& x, const at::Tensor& weight,
                                      const ConvolutionGeometry& geometry, ConvolutionGradientsWanted wanted) {
  if (!HasOpenBlocks(weight, geometry)) return PlainGradients(of_result, x, weight, geometry, wanted);
  // Also those that need no whole blocks: their own gradients do.
  const int64_t groups = geometry.groups, channels = weight.size(0) / groups;
  const at::Tensor whole_weight = InWholeBlocks(weight, 0, groups);
  ConvolutionGradients made;
  if (geometry.transposed) {
    made = PlainGradients(of_result, InWholeBlocks(x, 1, groups), whole_weight, geometry, wanted);
    made.x = OutOfBlocks(made.x, 1, groups, channels);
  } else {
    made = PlainGradients(InWholeBlocks(of_result, 1, groups), x, whole_weight, geometry, wanted);
    made.bias = OutOfBlocks(made.bias, 0, groups, channels);
  }
  made.weight = OutOfBlocks(made.weight, 0, groups, channels);
  return made;
}

}  // namespace adjoin
