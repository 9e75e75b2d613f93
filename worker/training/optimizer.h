// The job's optimizer on a rank's parts of the parameters' homes, which is exact since its rules are element-wise. The
// rules are torch::optim's SGD, Adam, AdamW, RMSprop and Adagrad; the learning rate of each step follows Train.schedule
// (schedule.h).
//
//   ADJOIN_ASSIGN_OR_RETURN(auto optimizer, TrainOptimizer::Create(plan.spec().train(), parameters));
//   optimizer->Step(0);                                          // once the gradients are in their homes
//
// To resume where another run stopped: copy its states into the tensors of States(), and call Step(number of its
// steps). One thread.
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

  // Makes the optimizer of the parameters that are trained, in the plan's order; `parameters` must outlive it.
  // Errors: kInvalidArgument (nothing to train, no optimizer, or settings that LibTorch refuses).
  static absl::StatusOr<std::unique_ptr<TrainOptimizer>> Create(const Train& train, const Parameters& parameters);

  // Does step `step` (from 0) with the parameters' gradients, of which none may be undefined. The result depends only
  // on the parameters, their gradients, States() and the step's number. Throws what LibTorch throws.
  void Step(int64_t step);

  // The learning rate of step `step` (from 0), without Adagrad's lr_decay.
  double LearningRate(int64_t step) const;

  // The tensors that the optimizer keeps between steps, under torch.optim's names: "momentum_buffer" of SGD and RMSprop
  // with momentum; "exp_avg", "exp_avg_sq" and, with amsgrad, "max_exp_avg_sq" of Adam; "square_avg" and, where it is
  // centered, "grad_avg" of RMSprop; "sum" of Adagrad. Every trained parameter has them, in the plan's order, from the
  // start on; before the first step "sum" is Adagrad.initial, and the others are zeros.
  struct State {
    std::string name;   // "exp_avg/conv1.weight"
    int parameter = 0;  // the parameter's index in Parameters; the tensor has its home
    at::Tensor tensor;  // the optimizer's own, with the parameter's type and local shape
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
