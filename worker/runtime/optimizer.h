// The job's optimizer over a rank's blocks of the parameters' homes; element-wise rules are thereby exact.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto optimizer, CreateOptimizer(plan.spec().train().optimizer(), parameters));
//   optimizer->step();
#ifndef ADJOIN_WORKER_RUNTIME_OPTIMIZER_H_
#define ADJOIN_WORKER_RUNTIME_OPTIMIZER_H_

#include <torch/torch.h>

#include <memory>

#include "absl/status/statusor.h"
#include "layers/parameters.h"
#include "proto/job.pb.h"

namespace adjoin {

// Of those parameters that are trained, in the plan's order; `parameters` must outlive it.
// Errors: kInvalidArgument (nothing to train, an optimizer that is not supported, or settings that LibTorch refuses).
absl::StatusOr<std::unique_ptr<torch::optim::Optimizer>> CreateOptimizer(const Optimizer& spec,
                                                                         const Parameters& parameters);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_OPTIMIZER_H_
