// The job's optimizer over a rank's blocks of the parameters' homes; element-wise rules are thereby exact. The rules are
// torch::optim's SGD, Adam and AdamW; the learning rate of each step follows Train.schedule (schedule.h).
//
//   ADJOIN_ASSIGN_OR_RETURN(auto optimizer, TrainOptimizer::Create(plan.spec().train(), parameters));
//   optimizer->Step(0);                                          // once the gradients are in their homes
//
// To go on where another run stopped: copy what it had into the tensors of States(), and say Step(number of its steps).
// One thread.
#ifndef ADJOIN_WORKER_TRAINING_OPTIMIZER_H_
#define ADJOIN_WORKER_TRAINING_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "layers/network/parameters.h"
#include "proto/job.pb.h"

namespace torch::optim {
class Optimizer;
}

namespace adjoin {

class TrainOptimizer {
 public:
  ~TrainOptimizer();

  // Of those parameters that are trained, in the plan's order; `parameters` must outlive it.
  // Errors: kInvalidArgument (nothing to train, no optimizer, or settings that LibTorch refuses).
  static absl::StatusOr<std::unique_ptr<TrainOptimizer>> Create(const Train& train, const Parameters& parameters);

  // The optimizer's step `step` (from 0), from the parameters' gradients, of which none may be undefined. Nothing but the
  // parameters, States() and the step's number decides what it does. Throws what LibTorch throws.
  void Step(int64_t step);

  // Of the step `step` (from 0).
  double LearningRate(int64_t step) const;

  // What the optimizer keeps between steps, besides their number: "momentum_buffer" of SGD with momentum, "exp_avg" and
  // "exp_avg_sq" of Adam. Of every trained parameter, in the plan's order, from the start on, zeros before the first step.
  struct State {
    std::string name;      // "exp_avg/conv1.weight"
    int parameter = 0;     // in Parameters: the tensor is a block of its home
    at::Tensor tensor;  // the optimizer's own, of the parameter's type and local shape
  };
  const std::vector<State>& States() const { return states_; }

 private:
  explicit TrainOptimizer(Train train);

  const Train train_;
  std::unique_ptr<torch::optim::Optimizer> rule_;
  std::vector<State> states_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_OPTIMIZER_H_
