// A convolution that keeps a part and the halo around it apart for its backward pass, where another layer keeps the
// part in any case. The backward pass puts them together again.
//
//   const at::Tensor read = halo->Apply(part, tape);                    // the part is the box `own` of it
//   at::Tensor y = ConvolveKeepingHaloApart(part, read, own, weight, bias, geometry);
//
// The same numbers as Convolve(read, weight, bias, geometry), bit by bit, and so are gradients that are not
// differentiated again.
#ifndef ADJOIN_LAYERS_CONV_PART_WITH_HALO_H_
#define ADJOIN_LAYERS_CONV_PART_WITH_HALO_H_

#include <ATen/core/Tensor.h>

#include "layers/conv/convolution_kernel.h"
#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {

// `bias` may be undefined; `own`: the box of `read` that `part` is. The graph keeps `part`, copies of the cells around
// it, and `weight`. Differentiable twice: the gradient goes to `read`, and where it is differentiated again to `part`
// as well.
at::Tensor ConvolveKeepingHaloApart(const at::Tensor& part, const at::Tensor& read, const Region& own,
                                    const at::Tensor& weight, const at::Tensor& bias,
                                    const ConvolutionGeometry& geometry);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_CONV_PART_WITH_HALO_H_
