// An element-wise function of any local tensor, as torch.nn has it.
//
// Local shapes: x and y alike; prelu's weight [1], or one number for each of the rank's channels.
// Errors: kInvalidArgument (as ArgumentsOf of layers/pointwise/activation_functions.h, which has their list).
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/pointwise/activation_functions.h"

namespace adjoin {
namespace {

using torch::Tensor;
using Arguments = std::vector<double>;
using Function = std::function<Tensor(const Tensor& x, const Arguments& a)>;

// All but prelu, which has a parameter.
const std::map<std::string, Function>& Functions() {
  static const auto* functions = new std::map<std::string, Function>{
      {"abs", [](const Tensor& x, const Arguments&) { return torch::abs(x); }},
      {"celu", [](const Tensor& x, const Arguments& a) { return torch::celu(x, a[0]); }},
      {"elu", [](const Tensor& x, const Arguments& a) { return torch::elu(x, a[0]); }},
      {"exp", [](const Tensor& x, const Arguments&) { return torch::exp(x); }},
      {"gelu", [](const Tensor& x, const Arguments&) { return torch::gelu(x, "none"); }},
      {"gelu_tanh", [](const Tensor& x, const Arguments&) { return torch::gelu(x, "tanh"); }},
      {"hardshrink", [](const Tensor& x, const Arguments& a) { return torch::hardshrink(x, a[0]); }},
      {"hardsigmoid", [](const Tensor& x, const Arguments&) { return torch::hardsigmoid(x); }},
      {"hardswish", [](const Tensor& x, const Arguments&) { return torch::hardswish(x); }},
      {"hardtanh", [](const Tensor& x, const Arguments& a) { return torch::hardtanh(x, a[0], a[1]); }},
      {"leaky_relu", [](const Tensor& x, const Arguments& a) { return torch::leaky_relu(x, a[0]); }},
      {"log_sigmoid", [](const Tensor& x, const Arguments&) { return torch::log_sigmoid(x); }},
      {"mish", [](const Tensor& x, const Arguments&) { return torch::mish(x); }},
      {"relu", [](const Tensor& x, const Arguments&) { return torch::relu(x); }},
      {"relu6", [](const Tensor& x, const Arguments&) { return torch::hardtanh(x, 0, 6); }},
      {"selu", [](const Tensor& x, const Arguments&) { return torch::selu(x); }},
      {"sigmoid", [](const Tensor& x, const Arguments&) { return torch::sigmoid(x); }},
      {"silu", [](const Tensor& x, const Arguments&) { return torch::silu(x); }},
      {"softplus", [](const Tensor& x, const Arguments& a) { return torch::softplus(x, a[0], a[1]); }},
      {"softshrink", [](const Tensor& x, const Arguments& a) { return torch::softshrink(x, a[0]); }},
      {"softsign", [](const Tensor& x, const Arguments&) { return x / (torch::abs(x) + 1); }},
      {"square", [](const Tensor& x, const Arguments&) { return torch::square(x); }},
      {"tanh", [](const Tensor& x, const Arguments&) { return torch::tanh(x); }},
      {"tanhshrink", [](const Tensor& x, const Arguments&) { return x - torch::tanh(x); }},
      {"threshold", [](const Tensor& x, const Arguments& a) { return torch::threshold(x, a[0], a[1]); }},
  };
  return *functions;
}

class ActivationLayer : public LayerModule {
 public:
  ActivationLayer(LayerContext context, Function function, Arguments arguments)
      : LayerModule(std::move(context)), function_(std::move(function)), arguments_(std::move(arguments)) {}

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    return Output(function_(Input(inputs, 0, tape), arguments_), tape);
  }

 private:
  const Function function_;
  const Arguments arguments_;
};

class PreluLayer : public LayerModule {
 public:
  using LayerModule::LayerModule;

  Tensor Forward(const std::vector<Tensor>& inputs, Tape& tape) override {
    const Tensor x = Input(inputs, 0, tape);
    const Tensor weight = Parameter("weight", tape).to(x.scalar_type());
    const Tensor y = runs_here() ? torch::prelu(x, weight) : EmptyResult(context().compute_shape, {x, weight});
    return Output(y, tape);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<LayerModule>> BuildActivation(LayerContext context) {
  const Activation& activation = context.plan.spec().activation();
  ADJOIN_ASSIGN_OR_RETURN(Arguments arguments, ArgumentsOf(activation));
  if (activation.fn() == "prelu") return std::make_unique<PreluLayer>(std::move(context));
  const auto function = Functions().find(activation.fn());
  if (function == Functions().end()) {
    return absl::InvalidArgumentError(absl::StrCat("activation \"", activation.fn(), "\" has no builder"));
  }
  return std::make_unique<ActivationLayer>(std::move(context), function->second, std::move(arguments));
}

}  // namespace adjoin
