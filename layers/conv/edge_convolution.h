// A convolution over a part of an image that stays where it is: the kernel runs on the part as if nothing were beyond
// it, and what its neighbours' cells give to the outputs at the edges is added when they have come.
//
//   EdgeConvolution pass({.windows = windows, .groups = 1, .cut = {{2}}});     // for each forward
//   std::vector<at::Tensor> inner = pass.TakeEdges(x);               // what the neighbours want
//   ... start to move them ...
//   at::Tensor y = pass.Interior(x, weight, bias);
//   ... wait: outer[i] has come for inner[i] ...
//   y = pass.AddEdges(y, outer, weight);
//
// Exact because a convolution is linear: the part, and its neighbours' cells dim by dim, are disjoint. It saves what
// the general way costs in large images, the copies of the whole part into a padded tensor and back. The outputs at the
// edges are sums of two kernels' results, and so may differ from the general way's in their last bits; so may
// gradients. All of it is differentiable twice. In a backward pass that is not itself differentiated, what the edges
// add to x's gradient is added in place.
#ifndef ADJOIN_LAYERS_CONV_EDGE_CONVOLUTION_H_
#define ADJOIN_LAYERS_CONV_EDGE_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "layers/conv/convolution_kernel.h"
#include "primitives/geometry/window.h"
#include "primitives/geometry/window_edges.h"

namespace adjoin {

class EdgeConvolution {
 public:
  // A tensor dim that the image is cut in, into parts as EdgesOf asks (primitives/geometry/window_edges.h); its padding
  // is above 0.
  struct Cut {
    int dim = 2;
    bool before = true;  // whether there are cells before the part, and after it
    bool after = true;
  };
  struct Options {
    std::vector<Window> windows;  // per spatial dim: padded by zeros, alike on both sides
    int64_t groups = 1;
    std::vector<Cut> cut;  // by dim, ascending
  };
  explicit EdgeConvolution(Options options);

  // Per cut dim: x's first cells of that dim, which the part before it reads, and its last ones, one after the other; x
  // has so many at least, or none: then so has the result.
  std::vector<at::Tensor> TakeEdges(const at::Tensor& x);
  // `bias` may be undefined.
  at::Tensor Interior(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
  // `outer`, per cut dim: the neighbours' cells before and after the part; later cut dims with their own halos, which
  // hold the corners. `y`, which Interior returned, is changed in place.
  at::Tensor AddEdges(const at::Tensor& y, const std::vector<at::Tensor>& outer, const at::Tensor& weight);

  // What Interior leaves for TakeEdges in a backward pass.
  struct Handover;

 private:
  std::vector<Cut> cut_;
  std::vector<WindowEdges> edges_;  // of each
  ConvolutionGeometry geometry_;    // of the part alone
  std::shared_ptr<Handover> handover_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_EDGE_CONVOLUTION_H_
