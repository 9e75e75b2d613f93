// A convolution as the tests write it: the layer's text, and what serial LibTorch makes of it.
//
//   ConvCase conv;
//   conv.kernel = {3}; conv.stride = {2}; ...
//   std::string layer = absl::StrCat("layer { name: \"y\" input: \"x\" x: \"x\" ", conv.Text(), " }");
//   at::Tensor y = conv.Serial(x, weight, bias);
#ifndef ADJOIN_LAYERS_CONV_CONV_CASES_H_
#define ADJOIN_LAYERS_CONV_CONV_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

struct ConvCase {
  std::vector<int64_t> kernel, stride, dilation, pad_lo, pad_hi;  // one value per spatial dim
  std::vector<int64_t> output_padding;                            // zeros unless transposed
  std::string boundary = "zeros";
  int64_t in = 1, out = 1, groups = 1;
  bool transposed = false;
  bool bias = true;
  std::string padding;  // written instead of pad_lo and pad_hi, which are what it means

  // Adds a spatial dim.
  void AddDim(int64_t k, int64_t s, int64_t d, int64_t lo, int64_t hi, int64_t extra = 0);
  // The output's extent of dim `i` for n inputs; below 1 where PyTorch refuses, its limits of paddings included.
  int64_t OutputSize(int i, int64_t n) const;
  std::vector<int64_t> WeightShape() const;
  std::string Text() const;  // "conv { ... }"
  // By at::conv* of the padded input, or with LibTorch's padding of that name, or at::conv_transpose*. `bias` may be
  // undefined.
  at::Tensor Serial(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const;
};

// A case of `spatial` dims whose extents (at most `most`) are added to `extents`; any boundary, groups, paddings.
ConvCase RandomConv(RandomJobs& random, int spatial, int64_t most, std::vector<int64_t>& extents);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_CONV_CASES_H_
