// What a normalisation over all but the channels of a tensor [n, c, ...] computes by itself on one rank, each in one
// pass over memory, forward and backward.
//
//   ChannelStatistics pass;                              // one for each forward pass
//   at::Tensor own = pass.Of(x);                      // [3, c] in float64: count, mean, sum of squared deviations
//   at::Tensor all = MergeStatistics(gathered);       // [p, 3, c] of p ranks -> [3, c] of all of them
//   at::Tensor y = pass.Normalised(x, all[1], scale, bias);      // (x - mean) * scale + bias
//
// Sums are in float64 and of deviations from means of small blocks, so that nothing is lost where the mean is large. On
// other devices than the CPU LibTorch's operators add up, and deviations are from the mean of all.
// Source of the merge: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances
// (1979). All are differentiable twice.
#ifndef ADJOIN_LAYERS_NORM_CHANNEL_STATISTICS_H_
#define ADJOIN_LAYERS_NORM_CHANNEL_STATISTICS_H_

#include <memory>

#include <ATen/core/Tensor.h>

namespace adjoin {

class ChannelStatistics {
 public:
  ChannelStatistics();

  // Returns the statistics of the elements of `x`, [n, c, ...] of float32 or float64; zeros where there are none.
  at::Tensor Of(const at::Tensor& x);
  // `mean` and `scale` [c] in float64, `bias` [c] of x's type or undefined. In a backward pass that is not itself
  // differentiated, x's gradient leaves through Of, which must then have had the same x: both parts in one pass.
  at::Tensor Normalised(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale, const at::Tensor& bias);

  // What Normalised leaves for Of in a backward pass.
  struct Handover;

 private:
  std::shared_ptr<Handover> handover_;
};

// [p, 3, c] of p disjoint sets of elements, in their order: [3, c] of all of them. Not all are empty.
at::Tensor MergeStatistics(const at::Tensor& parts);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NORM_CHANNEL_STATISTICS_H_
