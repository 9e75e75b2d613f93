// Losses as sums over the elements that a rank holds; each element of the prediction lies on one rank.
//
//   ADJOIN_ASSIGN_OR_RETURN(LossFunction sum, LossFor(spec));
//   torch::Tensor share = sum(prediction, target) / global_count;   // a scalar in P: the shares add up to the loss
#ifndef ADJOIN_LAYERS_LOSS_H_
#define ADJOIN_LAYERS_LOSS_H_

#include <functional>

#include <torch/torch.h>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace adjoin {

// The local sum, a scalar of the prediction's type that hangs on it in the graph, also where the rank has no elements.
// Throws c10::Error as LibTorch's loss does (a target out of range).
using LossFunction = std::function<torch::Tensor(const torch::Tensor& prediction, const torch::Tensor& target)>;

// "cross_entropy": prediction [n, classes, ...], target [n, ...] of int64.
// Errors: kInvalidArgument for another kind (lists the known ones).
absl::StatusOr<LossFunction> LossFor(const Loss& spec);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_H_
