#include "worker/training/optimizer.h"

#include <functional>
#include <sstream>
#include <string>
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

torch::Tensor ZerosLike(const torch::Tensor& parameter) {
  return torch::zeros_like(parameter, torch::MemoryFormat::Preserve).detach();
}

// Calls `keep` with the name of each tensor that a rule keeps of a parameter.
using Keeping = std::function<void(const char* what, const torch::Tensor& tensor)>;

// Rules with the states of their parameters as they are before the first step; null where there are none.
struct SgdRule {
  using Torch = torch::optim::SGD;

  static torch::optim::SGDOptions Options(const Sgd& sgd) {
    return torch::optim::SGDOptions(sgd.lr())
        .momentum(sgd.momentum())
        .weight_decay(sgd.weight_decay())
        .nesterov(sgd.nesterov());
  }
  static std::unique_ptr<torch::optim::OptimizerParamState> State(const Sgd& sgd, const torch::Tensor& parameter,
                                                                  const Keeping& keep) {
    if (sgd.momentum() == 0) return nullptr;
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(ZerosLike(parameter));
    keep("momentum_buffer", state->momentum_buffer());
    return state;
  }
};

template <typename Rule, typename RuleOptions, typename RuleState>
struct AnyAdamRule {
  using Torch = Rule;

  static RuleOptions Options(const Adam& adam) {
    return RuleOptions(adam.lr())
        .betas(std::make_tuple(adam.has_beta1() ? adam.beta1() : 0.9, adam.has_beta2() ? adam.beta2() : 0.999))
        .eps(adam.has_eps() ? adam.eps() : 1e-8)
        .weight_decay(adam.weight_decay())
        .amsgrad(adam.amsgrad());
  }
  static std::unique_ptr<torch::optim::OptimizerParamState> State(const Adam& adam, const torch::Tensor& parameter,
                                                                  const Keeping& keep) {
    auto state = std::make_unique<RuleState>();
    state->exp_avg(ZerosLike(parameter));
    keep("exp_avg", state->exp_avg());
    state->exp_avg_sq(ZerosLike(parameter));
    keep("exp_avg_sq", state->exp_avg_sq());
    if (!adam.amsgrad()) return state;
    state->max_exp_avg_sq(ZerosLike(parameter));
    keep("max_exp_avg_sq", state->max_exp_avg_sq());
    return state;
  }
};
using AdamRule = AnyAdamRule<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
using AdamWRule = AnyAdamRule<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

struct RmsPropRule {
  using Torch = torch::optim::RMSprop;

  static torch::optim::RMSpropOptions Options(const RmsProp& rmsprop) {
    return torch::optim::RMSpropOptions(rmsprop.lr())
        .alpha(rmsprop.has_alpha() ? rmsprop.alpha() : 0.99)
        .eps(rmsprop.has_eps() ? rmsprop.eps() : 1e-8)
        .weight_decay(rmsprop.weight_decay())
        .momentum(rmsprop.momentum())
        .centered(rmsprop.centered());
  }
  static std::unique_ptr<torch::optim::OptimizerParamState> State(const RmsProp& rmsprop,
                                                                  const torch::Tensor& parameter, const Keeping& keep) {
    auto state = std::make_unique<torch::optim::RMSpropParamState>();
    state->square_avg(ZerosLike(parameter));
    keep("square_avg", state->square_avg());
    if (rmsprop.momentum() > 0) {
      state->momentum_buffer(ZerosLike(parameter));
      keep("momentum_buffer", state->momentum_buffer());
    }
    if (rmsprop.centered()) {
      state->grad_avg(ZerosLike(parameter));
      keep("grad_avg", state->grad_avg());
    }
    return state;
  }
};

struct AdagradRule {
  using Torch = torch::optim::Adagrad;

  static torch::optim::AdagradOptions Options(const Adagrad& adagrad) {
    return torch::optim::AdagradOptions(adagrad.lr())
        .lr_decay(adagrad.lr_decay())
        .weight_decay(adagrad.weight_decay())
        .initial_accumulator_value(adagrad.initial())
        .eps(adagrad.has_eps() ? adagrad.eps() : 1e-10);
  }
  static std::unique_ptr<torch::optim::OptimizerParamState> State(const Adagrad& adagrad,
                                                                  const torch::Tensor& parameter, const Keeping& keep) {
    auto state = std::make_unique<torch::optim::AdagradParamState>();
    state->sum(torch::full_like(parameter, adagrad.initial()).detach());
    keep("sum", state->sum());
    return state;
  }
};

double BaseRate(const Optimizer& spec) {
  switch (spec.kind_case()) {
    case Optimizer::kSgd: return spec.sgd().lr();
    case Optimizer::kAdam: return spec.adam().lr();
    case Optimizer::kRmsprop: return spec.rmsprop().lr();
    case Optimizer::kAdagrad: return spec.adagrad().lr();
    case Optimizer::KIND_NOT_SET: return 0;
  }
  return 0;
}

// Tells a state's own rule the number of the step, where it is of this type.
template <typename State>
void SetStep(torch::optim::OptimizerParamState& state, int64_t step) {
  if (auto* own = dynamic_cast<State*>(&state)) own->step(step);
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
  const auto make = [&](auto kind, const auto& spec) {
    using Rule = decltype(kind);
    optimizer->rule_ = std::make_unique<typename Rule::Torch>(trained, Rule::Options(spec));
    for (size_t i = 0; i < trained.size(); ++i) {
      auto state = Rule::State(spec, trained[i], [&](const char* what, const torch::Tensor& tensor) {
        const std::string name = absl::StrCat(what, "/", parameters.name(indices[i]));
        optimizer->states_.push_back({name, indices[i], tensor});
      });
      if (state != nullptr) optimizer->rule_->state()[StateKey(trained[i])] = std::move(state);
    }
  };
  const Optimizer& spec = train.optimizer();
  try {
    torch::NoGradGuard no_grad;
    switch (spec.kind_case()) {
      case Optimizer::kSgd: make(SgdRule(), spec.sgd()); break;
      case Optimizer::kAdam:
        spec.adam().decoupled() ? make(AdamWRule(), spec.adam()) : make(AdamRule(), spec.adam());
        break;
      case Optimizer::kRmsprop: make(RmsPropRule(), spec.rmsprop()); break;
      case Optimizer::kAdagrad: make(AdagradRule(), spec.adagrad()); break;
      case Optimizer::KIND_NOT_SET:
        return absl::InvalidArgumentError("the job has no optimizer; write sgd, adam, rmsprop or adagrad");
    }
    return optimizer;
  } catch (...) {
    return StatusFromCurrentException();
  }
}

double TrainOptimizer::LearningRate(int64_t step) const {
  return BaseRate(train_.optimizer()) * ScheduleFactor(train_, step);
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
    SetStep<torch::optim::AdamParamState>(*entry.second, step);
    SetStep<torch::optim::AdamWParamState>(*entry.second, step);
    SetStep<torch::optim::RMSpropParamState>(*entry.second, step);
    SetStep<torch::optim::AdagradParamState>(*entry.second, step);
  }
  rule_->step();
}

}  // namespace adjoin
