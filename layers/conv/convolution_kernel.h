// LibTorch's convolution and its gradients, without what has been seen to fail in one release of its oneDNN.
//
//   const ConvolutionGeometry same = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}};
//   const at::Tensor y = Convolve(x, weight, bias, same);   // differentiable
//
// With oneDNN 3.7 (LibTorch 2.6 in Debian 13), the gradient of a convolution's input was NaN now and then in float32,
// where the convolution's result has 4 or 8 channels; never with 16 (docs/building.md). It looks as if the kernel,
// which is a transposed convolution's, too, read channels of a block of 16 that nobody had written. There, both factors
// are padded by zeros to 16 channels. For a moment that takes up to four times the memory of the result's gradient, or
// of a transposed convolution's input. Kernels for second derivatives, which LibTorch chooses, are not padded.
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
