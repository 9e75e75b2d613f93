#include "verify/serial_optimizer.h"

#include <tuple>
#include <utility>

#include <torch/optim.h>

namespace adjoin {

std::unique_ptr<torch::optim::Optimizer> SerialOptimizer(const Optimizer& spec, std::vector<at::Tensor> trained) {
  if (spec.has_adam()) {
    const Adam& adam = spec.adam();
    const auto fill = [&adam](auto options) {
      options.betas(std::make_tuple(adam.has_beta1() ? adam.beta1() : 0.9, adam.has_beta2() ? adam.beta2() : 0.999));
      options.eps(adam.has_eps() ? adam.eps() : 1e-8).weight_decay(adam.weight_decay()).amsgrad(adam.amsgrad());
      return options;
    };
    if (adam.decoupled()) {
      return std::make_unique<torch::optim::AdamW>(std::move(trained), fill(torch::optim::AdamWOptions(adam.lr())));
    }
    return std::make_unique<torch::optim::Adam>(std::move(trained), fill(torch::optim::AdamOptions(adam.lr())));
  }
  if (spec.has_rmsprop()) {
    const RmsProp& rmsprop = spec.rmsprop();
    torch::optim::RMSpropOptions options(rmsprop.lr());
    if (rmsprop.has_alpha()) options.alpha(rmsprop.alpha());
    if (rmsprop.has_eps()) options.eps(rmsprop.eps());
    options.weight_decay(rmsprop.weight_decay()).momentum(rmsprop.momentum()).centered(rmsprop.centered());
    return std::make_unique<torch::optim::RMSprop>(std::move(trained), options);
  }
  if (spec.has_adagrad()) {
    const Adagrad& adagrad = spec.adagrad();
    torch::optim::AdagradOptions options(adagrad.lr());
    if (adagrad.has_eps()) options.eps(adagrad.eps());
    options.lr_decay(adagrad.lr_decay()).weight_decay(adagrad.weight_decay());
    options.initial_accumulator_value(adagrad.initial());
    return std::make_unique<torch::optim::Adagrad>(std::move(trained), options);
  }
  const Sgd& sgd = spec.sgd();
  torch::optim::SGDOptions options(sgd.lr());
  options.momentum(sgd.momentum()).dampening(sgd.dampening()).weight_decay(sgd.weight_decay()).nesterov(sgd.nesterov());
  return std::make_unique<torch::optim::SGD>(std::move(trained), options);
}

}  // namespace adjoin
