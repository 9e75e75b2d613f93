#include "worker/training/optimizer.h"

#include <sstream>
#include <tuple>

#include <torch/optim.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "primitives/status_exception.h"
#include "worker/training/schedule.h"

namespace adjoin {
namespace {

// LibTorch's key of a parameter's state: its address, which LibTorch 1 writes as text.
class StateKey {
 public:
  explicit StateKey(const torch::Tensor& parameter) : address_(parameter.unsafeGetTensorImpl()) {}

  operator void*() const { return address_; }
  operator std::string() const {
    std::ostringstream text;
    text << address_;
    return text.str();
  }

 private:
  void* address_;
};

template <typename Options>
Options AdamOptionsOf(const Adam& adam) {
  return Options(adam.lr())
      .betas(std::make_tuple(adam.has_beta1() ? adam.beta1() : 0.9, adam.has_beta2() ? adam.beta2() : 0.999))
      .eps(adam.has_eps() ? adam.eps() : 1e-8)
      .weight_decay(adam.weight_decay());
}

template <typename AdamState>
std::unique_ptr<AdamState> NewAdamState(const torch::Tensor& parameter) {
  auto state = std::make_unique<AdamState>();
  state->exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Preserve).detach());
  state->exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Preserve).detach());
  return state;
}

}  // namespace

TrainOptimizer::TrainOptimizer(Train train) : train_(std::move(train)) {}

TrainOptimizer::~TrainOptimizer() = default;

absl::StatusOr<std::unique_ptr<TrainOptimizer>> TrainOptimizer::Create(const Train& train,
                                                                       const Parameters& parameters) {
  std::unique_ptr<TrainOptimizer> optimizer(new TrainOptimizer(train));
  std::vector<int> indices;
  std::vector<torch::Tensor> trained;
  for (int i = 0; i < parameters.size(); ++i) {
    if (parameters.frozen(i)) continue;
    indices.push_back(i);
    trained.push_back(parameters.tensor(i));
  }
  if (trained.empty()) return absl::InvalidArgumentError("the network has no parameter to train");
  const Optimizer& spec = train.optimizer();
  const auto keep = [&](const char* what, int i, const torch::Tensor& tensor) {
    const int index = indices[i];
    optimizer->states_.push_back({absl::StrCat(what, "/", parameters.name(index)), index, tensor});
  };
  try {
    torch::NoGradGuard no_grad;
    if (spec.has_sgd()) {
      const Sgd& sgd = spec.sgd();
      const auto options = torch::optim::SGDOptions(sgd.lr())
                               .momentum(sgd.momentum())
                               .weight_decay(sgd.weight_decay())
                               .nesterov(sgd.nesterov());
      optimizer->rule_ = std::make_unique<torch::optim::SGD>(trained, options);
      for (size_t i = 0; i < trained.size() && sgd.momentum() != 0; ++i) {
        auto state = std::make_unique<torch::optim::SGDParamState>();
        state->momentum_buffer(torch::zeros_like(trained[i]).detach());
        keep("momentum_buffer", static_cast<int>(i), state->momentum_buffer());
        optimizer->rule_->state()[StateKey(trained[i])] = std::move(state);
      }
      return optimizer;
    }
    if (!spec.has_adam()) return absl::InvalidArgumentError("the job has no optimizer; write sgd or adam");
    const auto adam = [&](auto rule, auto new_state) {
      optimizer->rule_ = std::move(rule);
      for (size_t i = 0; i < trained.size(); ++i) {
        auto state = new_state(trained[i]);
        keep("exp_avg", static_cast<int>(i), state->exp_avg());
        keep("exp_avg_sq", static_cast<int>(i), state->exp_avg_sq());
        optimizer->rule_->state()[StateKey(trained[i])] = std::move(state);
      }
    };
    if (spec.adam().decoupled()) {
      adam(std::make_unique<torch::optim::AdamW>(trained, AdamOptionsOf<torch::optim::AdamWOptions>(spec.adam())),
           NewAdamState<torch::optim::AdamWParamState>);
    } else {
      adam(std::make_unique<torch::optim::Adam>(trained, AdamOptionsOf<torch::optim::AdamOptions>(spec.adam())),
           NewAdamState<torch::optim::AdamParamState>);
    }
    return optimizer;
  } catch (...) {
    return StatusFromCurrentException();
  }
}

double TrainOptimizer::LearningRate(int64_t step) const {
  const Optimizer& spec = train_.optimizer();
  return (spec.has_sgd() ? spec.sgd().lr() : spec.adam().lr()) * ScheduleFactor(train_, step);
}

void TrainOptimizer::Step(int64_t step) {
  for (torch::optim::OptimizerParamGroup& group : rule_->param_groups()) {
    group.options().set_lr(LearningRate(step));
    if (!train_.optimizer().has_sgd()) continue;
    // LibTorch's first step puts the undamped gradient into the buffer. With a buffer of zeros, no dampening does the
    // same.
    auto& options = static_cast<torch::optim::SGDOptions&>(group.options());
    options.dampening(step == 0 ? 0 : train_.optimizer().sgd().dampening());
  }
  for (auto& entry : rule_->state()) {
    if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(entry.second.get())) adam->step(step);
    if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(entry.second.get())) adamw->step(step);
  }
  rule_->step();
}

}  // namespace adjoin
