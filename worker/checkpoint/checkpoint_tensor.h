// A tensor that checkpoints hold: a parameter, a buffer, or a state of the optimizer.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_TENSOR_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_TENSOR_H_

#include <string>

#include <ATen/core/Tensor.h>

#include "primitives/geometry/layout.h"

namespace adjoin {

// Every rank lists all tensors of a job in the same order, including those of which it holds nothing.
struct CheckpointTensor {
  std::string name;  // "conv1.weight", "exp_avg/conv1.weight"
  Layout home;
  at::Tensor local;  // this rank's box of `home`, not a copy
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_TENSOR_H_
