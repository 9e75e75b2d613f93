// Layers that compute each element from its own, and softmax, on whole tensors, as PyTorch defines them.
#include <torch/nn/functional.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "layers/serial_functions.h"

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

// Arguments of Activation, where PyTorch's defaults stand for those that are absent.
class Arguments {
 public:
  explicit Arguments(const Activation& spec) : spec_(spec) {}
  double At(int index, double otherwise) const { return index < spec_.arg_size() ? spec_.arg(index) : otherwise; }
  double At(int index) const {
    TORCH_CHECK(index < spec_.arg_size(), spec_.fn(), " needs argument ", index);
    return spec_.arg(index);
  }

 private:
  const Activation& spec_;
};

using Function = std::function<Tensor(const Tensor&, const Arguments&)>;

const std::map<std::string, Function>& Functions() {
  using A = Arguments;
  static const auto* functions = new std::map<std::string, Function>{
      {"abs", [](const Tensor& x, const A&) { return x.abs(); }},
      {"acos", [](const Tensor& x, const A&) { return x.acos(); }},
      {"acosh", [](const Tensor& x, const A&) { return x.acosh(); }},
      {"add", [](const Tensor& x, const A& a) { return torch::add(x, a.At(0)); }},
      {"asin", [](const Tensor& x, const A&) { return x.asin(); }},
      {"asinh", [](const Tensor& x, const A&) { return x.asinh(); }},
      {"atan", [](const Tensor& x, const A&) { return x.atan(); }},
      {"atanh", [](const Tensor& x, const A&) { return x.atanh(); }},
      {"celu", [](const Tensor& x, const A& a) { return F::celu(x, F::CELUFuncOptions().alpha(a.At(0, 1))); }},
      {"clamp", [](const Tensor& x, const A& a) { return x.clamp(a.At(0), a.At(1)); }},
      {"clamp_max", [](const Tensor& x, const A& a) { return x.clamp_max(a.At(0)); }},
      {"clamp_min", [](const Tensor& x, const A& a) { return x.clamp_min(a.At(0)); }},
      {"cos", [](const Tensor& x, const A&) { return x.cos(); }},
      {"cosh", [](const Tensor& x, const A&) { return x.cosh(); }},
      {"digamma", [](const Tensor& x, const A&) { return x.digamma(); }},
      {"elu", [](const Tensor& x, const A& a) { return F::elu(x, F::ELUFuncOptions().alpha(a.At(0, 1))); }},
      {"erf", [](const Tensor& x, const A&) { return x.erf(); }},
      {"erfc", [](const Tensor& x, const A&) { return x.erfc(); }},
      {"erfinv", [](const Tensor& x, const A&) { return x.erfinv(); }},
      {"exp", [](const Tensor& x, const A&) { return x.exp(); }},
      {"exp2", [](const Tensor& x, const A&) { return x.exp2(); }},
      {"expm1", [](const Tensor& x, const A&) { return x.expm1(); }},
      {"frac", [](const Tensor& x, const A&) { return x.frac(); }},
      {"gelu", [](const Tensor& x, const A&) { return x * (1 + torch::erf(x / std::sqrt(2.0))) / 2; }},
      {"gelu_tanh", [](const Tensor& x, const A&) { return F::gelu(x, F::GELUFuncOptions().approximate("tanh")); }},
      {"hardshrink",
       [](const Tensor& x, const A& a) { return F::hardshrink(x, F::HardshrinkFuncOptions().lambda(a.At(0, 0.5))); }},
      {"hardsigmoid", [](const Tensor& x, const A&) { return torch::hardsigmoid(x); }},
      {"hardswish", [](const Tensor& x, const A&) { return torch::hardswish(x); }},
      {"hardtanh",
       [](const Tensor& x, const A& a) {
         return F::hardtanh(x, F::HardtanhFuncOptions().min_val(a.At(0, -1)).max_val(a.At(1, 1)));
       }},
      {"leaky_relu",
       [](const Tensor& x, const A& a) {
         return F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(a.At(0, 0.01)));
       }},
      {"lgamma", [](const Tensor& x, const A&) { return x.lgamma(); }},
      {"log", [](const Tensor& x, const A&) { return x.log(); }},
      {"log10", [](const Tensor& x, const A&) { return x.log10(); }},
      {"log1p", [](const Tensor& x, const A&) { return x.log1p(); }},
      {"log2", [](const Tensor& x, const A&) { return x.log2(); }},
      {"log_sigmoid", [](const Tensor& x, const A&) { return F::logsigmoid(x); }},
      {"logit", [](const Tensor& x, const A&) { return x.logit(); }},
      {"mish", [](const Tensor& x, const A&) { return x * torch::tanh(F::softplus(x)); }},
      {"mul", [](const Tensor& x, const A& a) { return torch::mul(x, a.At(0)); }},
      {"neg", [](const Tensor& x, const A&) { return x.neg(); }},
      {"pow", [](const Tensor& x, const A& a) { return x.pow(a.At(0)); }},
      {"reciprocal", [](const Tensor& x, const A&) { return x.reciprocal(); }},
      {"relu", [](const Tensor& x, const A&) { return F::relu(x); }},
      {"relu6", [](const Tensor& x, const A&) { return F::relu6(x); }},
      // As PyTorch has it for norms and standard deviations.
      {"root",
       [](const Tensor& x, const A&) {
         const Tensor other = torch::where(x == 0, torch::ones_like(x), x);
         return torch::where(x == 0, torch::zeros_like(x), other.sqrt());
       }},
      {"rsqrt", [](const Tensor& x, const A&) { return x.rsqrt(); }},
      {"rsub", [](const Tensor& x, const A& a) { return torch::rsub(x, a.At(0)); }},
      {"selu", [](const Tensor& x, const A&) { return F::selu(x); }},
      {"sigmoid", [](const Tensor& x, const A&) { return x.sigmoid(); }},
      {"silu", [](const Tensor& x, const A&) { return F::silu(x); }},
      {"sin", [](const Tensor& x, const A&) { return x.sin(); }},
      {"sinc", [](const Tensor& x, const A&) { return x.sinc(); }},
      {"sinh", [](const Tensor& x, const A&) { return x.sinh(); }},
      {"softplus",
       [](const Tensor& x,
          const A& a) { return F::softplus(x, F::SoftplusFuncOptions().beta(a.At(0, 1)).threshold(a.At(1, 20))); }},
      {"softshrink",
       [](const Tensor& x, const A& a) { return F::softshrink(x, F::SoftshrinkFuncOptions().lambda(a.At(0, 0.5))); }},
      {"softsign", [](const Tensor& x, const A&) { return F::softsign(x); }},
      {"sqrt", [](const Tensor& x, const A&) { return x.sqrt(); }},
      {"square", [](const Tensor& x, const A&) { return x * x; }},
      {"tan", [](const Tensor& x, const A&) { return x.tan(); }},
      {"tanh", [](const Tensor& x, const A&) { return x.tanh(); }},
      {"tanhshrink", [](const Tensor& x, const A&) { return F::tanhshrink(x); }},
      {"threshold",
       [](const Tensor& x, const A& a) { return F::threshold(x, F::ThresholdFuncOptions(a.At(0), a.At(1))); }},
  };
  return *functions;
}

}  // namespace

Tensor SerialActivation(SerialCall& call) {
  const Activation& spec = call.spec().activation();
  const Arguments arguments(spec);
  if (spec.fn() == "prelu") {
    const auto count = static_cast<int64_t>(arguments.At(0, 1));
    return F::prelu(call.input(), call.Parameter("weight", {count}, 0.1, arguments.At(1, 0.25)));
  }
  const auto function = Functions().find(spec.fn());
  TORCH_CHECK(function != Functions().end(), "activation \"", spec.fn(), "\" is not known");
  return function->second(call.input(), arguments);
}

Tensor SerialAdd(SerialCall& call) {
  Tensor sum = call.input().clone();
  for (size_t i = 1; i < call.inputs().size(); ++i) sum = sum + call.inputs()[i];
  return sum;
}

Tensor SerialMultiply(SerialCall& call) {
  Tensor product = call.input().clone();
  for (size_t i = 1; i < call.inputs().size(); ++i) product = product * call.inputs()[i];
  return product;
}

Tensor SerialParameter(SerialCall& call) {
  const OwnParameter& spec = call.spec().parameter();
  const std::vector<int64_t> shape(spec.shape().begin(), spec.shape().end());
  const double centre = spec.combine() == "multiply" ? 1 : 0;
  Tensor weight =
      spec.buffer() ? call.Buffer("weight", shape, 0.1, centre) : call.Parameter("weight", shape, 0.1, centre);
  for (int dim = 0; dim < spec.length_size(); ++dim) weight = weight.slice(dim, 0, spec.length(dim));
  if (spec.combine() == "add") return call.input() + weight;
  if (spec.combine() == "multiply") return call.input() * weight;
  if (spec.combine() == "value") return weight.unsqueeze(0).clone();
  TORCH_CHECK(spec.combine() == "expand", "parameter \"", spec.combine(), "\" is not known");
  std::vector<int64_t> expanded = weight.sizes().vec();
  expanded[0] = call.input().size(0);
  // A view of the parameter would change with it.
  return weight.expand(expanded).clone();
}

Tensor SerialSoftmax(SerialCall& call) {
  const Softmax& spec = call.spec().softmax();
  return spec.log() ? torch::log_softmax(call.input(), spec.dim()) : torch::softmax(call.input(), spec.dim());
}

}  // namespace adjoin
