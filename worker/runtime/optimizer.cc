#include "worker/runtime/optimizer.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "primitives/status_exception.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<torch::optim::Optimizer>> CreateOptimizer(const Optimizer& spec,
                                                                         const Parameters& parameters) {
  std::vector<torch::Tensor> trained;
  for (int i = 0; i < parameters.size(); ++i) {
    if (!parameters.frozen(i)) trained.push_back(parameters.tensor(i));
  }
  if (trained.empty()) return absl::InvalidArgumentError("the network has no parameter to train");
  if (!spec.has_sgd()) return absl::InvalidArgumentError("the optimizer is not supported; right would be sgd");
  const Sgd& sgd = spec.sgd();
  const auto options = torch::optim::SGDOptions(sgd.lr())
                           .momentum(sgd.momentum())
                           .dampening(sgd.dampening())
                           .weight_decay(sgd.weight_decay())
                           .nesterov(sgd.nesterov());
  try {
    return std::make_unique<torch::optim::SGD>(std::move(trained), options);
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace adjoin
