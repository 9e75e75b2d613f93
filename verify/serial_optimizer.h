// LibTorch's own optimizer, with the job's settings.
#ifndef ADJOIN_VERIFY_SERIAL_OPTIMIZER_H_
#define ADJOIN_VERIFY_SERIAL_OPTIMIZER_H_

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "proto/job.pb.h"

namespace torch::optim {
class Optimizer;
}

namespace adjoin {

// `spec` is of a kind that the planner knows. A step changes `trained` in place, by their gradients.
std::unique_ptr<torch::optim::Optimizer> SerialOptimizer(const Optimizer& spec, std::vector<at::Tensor> trained);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SERIAL_OPTIMIZER_H_
