// LibTorch's convolution and its gradients, right also where those of the oneDNN in LibTorch are not.
//
//   const ConvolutionGeometry same = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}};
//   const at::Tensor y = Convolve(x, weight, bias, same);   // differentiable
//
// oneDNN 3.7 (LibTorch 2.6 in Debian 13) computes a convolution's gradient of its input, and so a transposed
// convolution, with the weight copied into blocks of 16 channels: those of the convolution's result, which a transposed
// one reads. Where there are 4 or 8, the copy has behind them what the memory held before. It is multiplied by zeros,
// which gives NaN where that was NaN or infinity. There, both factors are padded by zeros to 16 channels.
#ifndef ADJOIN_LAYERS_CONV_CONVOLUTION_KERNEL_H_
#define ADJOIN_LAYERS_CONV_CONVOLUTION_KERNEL_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace adjoin {

// Whether the installed oneDNN is such a one.
bool ConvolutionsNeedWholeBlocks();

// The vectors have a number per spatial dim. A transposed convolution has no output padding.
struct ConvolutionGeometry {
  std::vector<int64_t> stride, padding, dilation;
  bool transposed = false;
  int64_t groups = 1;
  bool whole_blocks = ConvolutionsNeedWholeBlocks();  // the same to rounding with any oneDNN
};

// x [n, ci, ...], weight [co, ci / groups, ...], or, transposed, [ci, co / groups, ...]; bias [co] or undefined.
// Returns [n, co, ...]. Differentiable twice.
at::Tensor Convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const ConvolutionGeometry& geometry);

struct ConvolutionGradients {
  at::Tensor x, weight, bias;  // undefined: not asked for
};
struct ConvolutionGradientsWanted {
  bool x = true, weight = true, bias = true;
};

// Gradients of a convolution of x and weight whose result has the gradient `of_result`.
ConvolutionGradients ConvolveBackward(const at::Tensor& of_result, const at::Tensor& x, const at::Tensor& weight,
                                      const ConvolutionGeometry& geometry, ConvolutionGradientsWanted wanted);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_CONVOLUTION_KERNEL_H_
