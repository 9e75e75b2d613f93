// An element-wise function of any local tensor, as torch.nn has it.
//
// Local shapes: x and y alike; prelu's weight [1], or one number for each of the rank's channels.
// Errors: kInvalidArgument (as ArgumentsOf of layers/pointwise/activation_functions.h, which has their list).
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/digamma.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardshrink.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/lgamma.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/logit.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/prelu.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinc.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softshrink.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/threshold.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/layer.h"
#include "layers/pointwise/activation_functions.h"
#include "layers/rules/roles.h"
#include "layers/sum_type.h"

namespace adjoin {
namespace {

using at::Tensor;
using Arguments = std::vector<double>;
using Function = std::function<Tensor(const Tensor& x, const Arguments& a)>;

// All but prelu, which has a parameter. LibTorch 1 has no kernel of bfloat16 for mish, or for the gradient of hardtanh,
// and that of sinc rounds in between.
const std::map<std::string, Function>& Functions() {
  static const auto* functions = new std::map<std::string, Function>{
      {"abs", [](const Tensor& x, const Arguments&) { return at::abs(x); }},
      {"acos", [](const Tensor& x, const Arguments&) { return at::acos(x); }},
      {"acosh", [](const Tensor& x, const Arguments&) { return at::acosh(x); }},
      {"add", [](const Tensor& x, const Arguments& a) { return x + a[0]; }},
      {"asin", [](const Tensor& x, const Arguments&) { return at::asin(x); }},
      {"asinh", [](const Tensor& x, const Arguments&) { return at::asinh(x); }},
      {"atan", [](const Tensor& x, const Arguments&) { return at::atan(x); }},
      {"atanh", [](const Tensor& x, const Arguments&) { return at::atanh(x); }},
      {"celu", [](const Tensor& x, const Arguments& a) { return at::celu(x, a[0]); }},
      {"clamp", [](const Tensor& x, const Arguments& a) { return at::clamp(x, a[0], a[1]); }},
      {"clamp_max", [](const Tensor& x, const Arguments& a) { return at::clamp_max(x, a[0]); }},
      {"clamp_min", [](const Tensor& x, const Arguments& a) { return at::clamp_min(x, a[0]); }},
      {"cos", [](const Tensor& x, const Arguments&) { return at::cos(x); }},
      {"cosh", [](const Tensor& x, const Arguments&) { return at::cosh(x); }},
      {"digamma", [](const Tensor& x, const Arguments&) { return at::digamma(x); }},
      {"elu", [](const Tensor& x, const Arguments& a) { return at::elu(x, a[0]); }},
      {"erf", [](const Tensor& x, const Arguments&) { return at::erf(x); }},
      {"erfc", [](const Tensor& x, const Arguments&) { return at::erfc(x); }},
      {"erfinv", [](const Tensor& x, const Arguments&) { return at::erfinv(x); }},
      {"exp", [](const Tensor& x, const Arguments&) { return at::exp(x); }},
      {"exp2", [](const Tensor& x, const Arguments&) { return at::exp2(x); }},
      {"expm1", [](const Tensor& x, const Arguments&) { return at::expm1(x); }},
      {"frac", [](const Tensor& x, const Arguments&) { return at::frac(x); }},
      {"gelu", [](const Tensor& x, const Arguments&) { return at::gelu(x, "none"); }},
      {"gelu_tanh", [](const Tensor& x, const Arguments&) { return at::gelu(x, "tanh"); }},
      {"hardshrink", [](const Tensor& x, const Arguments& a) { return at::hardshrink(x, a[0]); }},
      {"hardsigmoid", [](const Tensor& x, const Arguments&) { return at::hardsigmoid(x); }},
      {"hardswish", [](const Tensor& x, const Arguments&) { return at::hardswish(x); }},
      {"hardtanh",
       [](const Tensor& x, const Arguments& a) { return at::hardtanh(InSumType(x), a[0], a[1]).to(x.scalar_type()); }},
      {"leaky_relu", [](const Tensor& x, const Arguments& a) { return at::leaky_relu(x, a[0]); }},
      {"lgamma", [](const Tensor& x, const Arguments&) { return at::lgamma(x); }},
      {"log", [](const Tensor& x, const Arguments&) { return at::log(x); }},
      {"log10", [](const Tensor& x, const Arguments&) { return at::log10(x); }},
      {"log1p", [](const Tensor& x, const Arguments&) { return at::log1p(x); }},
      {"log2", [](const Tensor& x, const Arguments&) { return at::log2(x); }},
      {"log_sigmoid", [](const Tensor& x, const Arguments&) { return at::log_sigmoid(x); }},
      {"logit", [](const Tensor& x, const Arguments&) { return at::logit(x); }},
      {"mish", [](const Tensor& x, const Arguments&) { return at::mish(InSumType(x)).to(x.scalar_type()); }},
      {"mul", [](const Tensor& x, const Arguments& a) { return x * a[0]; }},
      {"neg", [](const Tensor& x, const Arguments&) { return -x; }},
      {"pow", [](const Tensor& x, const Arguments& a) { return at::pow(x, a[0]); }},
      {"reciprocal", [](const Tensor& x, const Arguments&) { return at::reciprocal(x); }},
      {"relu", [](const Tensor& x, const Arguments&) { return at::relu(x); }},
      {"relu6", [](const Tensor& x, const Arguments&) { return at::hardtanh(InSumType(x), 0, 6).to(x.scalar_type()); }},
      {"root",
       [](const Tensor& x, const Arguments&) {
         const Tensor is_zero = x == 0;
         return at::sqrt(x.masked_fill(is_zero, 1)).masked_fill(is_zero, 0);
       }},
      {"rsqrt", [](const Tensor& x, const Arguments&) { return at::rsqrt(x); }},
      {"rsub", [](const Tensor& x, const Arguments& a) { return a[0] - x; }},
      {"selu", [](const Tensor& x, const Arguments&) { return at::selu(x); }},
      {"sigmoid", [](const Tensor& x, const Arguments&) { return at::sigmoid(x); }},
      {"silu", [](const Tensor& x, const Arguments&) { return at::silu(x); }},
      {"sin", [](const Tensor& x, const Arguments&) { return at::sin(x); }},
      {"sinc", [](const Tensor& x, const Arguments&) { return at::sinc(InSumType(x)).to(x.scalar_type()); }},
      {"sinh", [](const Tensor& x, const Arguments&) { return at::sinh(x); }},
      {"softplus", [](const Tensor& x, const Arguments& a) { return at::softplus(x, a[0], a[1]); }},
      {"softshrink", [](const Tensor& x, const Arguments& a) { return at::softshrink(x, a[0]); }},
      {"softsign", [](const Tensor& x, const Arguments&) { return x / (at::abs(x) + 1); }},
      {"sqrt", [](const Tensor& x, const Arguments&) { return at::sqrt(x); }},
      {"square", [](const Tensor& x, const Arguments&) { return at::square(x); }},
      {"tan", [](const Tensor& x, const Arguments&) { return at::tan(x); }},
      {"tanh", [](const Tensor& x, const Arguments&) { return at::tanh(x); }},
      {"tanhshrink", [](const Tensor& x, const Arguments&) { return x - at::tanh(x); }},
      {"threshold", [](const Tensor& x, const Arguments& a) { return at::threshold(x, a[0], a[1]); }},
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
    const Tensor weight = Parameter(kRoleWeight, tape).to(x.scalar_type());
    const Tensor y = runs_here() ? at::prelu(x, weight) : EmptyResult(context().compute_shape, {x, weight});
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
