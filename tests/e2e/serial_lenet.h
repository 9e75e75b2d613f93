// LeNet-5 on the MNIST subset in plain torch::nn and torch::optim: the truth that the jobs of examples/mnist are
// compared with. Shares nothing with the product but the order of samples (Permutation): its own network, its own
// reading of IDX.
//
//   SerialRun truth = TrainSerially({.steps = 50}, InitialWeights(/*seed=*/1, torch::kFloat64));
#ifndef ADJOIN_TESTS_E2E_SERIAL_LENET_H_
#define ADJOIN_TESTS_E2E_SERIAL_LENET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <torch/optim.h>
#include <torch/types.h>

namespace adjoin {

using NamedTensors = std::map<std::string, torch::Tensor>;  // by state_dict name

// PyTorch's own initialisation.
NamedTensors InitialWeights(uint64_t seed, torch::ScalarType dtype);

struct SerialOptions {
  std::string folder = "examples/mnist";
  uint64_t job_seed = 1;    // JobSpec.seed: of the order of samples
  int64_t train_limit = 0;  // Dataset.limit; 0: all
  int64_t test_limit = 0;
  int64_t batch = 64;
  int64_t steps = 0;
  double lr = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;

  // Instead of SGD with the numbers above.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> optimizer = {};
  std::function<double(int64_t)> lr_of_step = {};  // from 0
  double clip_norm = 0;                            // 0: not clipped
  std::set<std::string> frozen = {};               // parameters
  bool bfloat16 = false;                           // activations and the arithmetic, of weights that stay as they are
  int64_t validate_every = 0;                      // on the test images; 0: never
};

struct SerialRun {
  std::vector<double> losses;  // by step, before it
  NamedTensors weights;        // after the last step
  int64_t correct = 0;         // test images
  double test_loss = 0;
  std::vector<double> norms;              // of all gradients, before clipping, of each step; where they are clipped
  std::vector<double> validation_losses;  // at each validation
};

// In the weights' dtype. Throws c10::Error.
SerialRun TrainSerially(const SerialOptions& options, const NamedTensors& initial);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_E2E_SERIAL_LENET_H_
