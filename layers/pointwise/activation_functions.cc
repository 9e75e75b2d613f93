#include "layers/pointwise/activation_functions.h"

#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using Arguments = std::vector<double>;

// "softplus(beta = 1, threshold = 20)".
std::string Signature(const ActivationFunction& function) {
  if (function.arguments.empty()) return function.name;
  return absl::StrCat(function.name, "(",
                      absl::StrJoin(function.arguments, ", ",
                                    [](std::string* out, const ActivationArgument& argument) {
                                      absl::StrAppend(out, argument.name);
                                      if (argument.otherwise.has_value()) {
                                        absl::StrAppend(out, " = ", *argument.otherwise);
                                      }
                                    }),
                      ")");
}

std::string KnownNames() {
  return absl::StrJoin(ActivationFunctions(), ", ",
                       [](std::string* out, const ActivationFunction& function) { out->append(function.name); });
}

const ActivationFunction* Find(const std::string& name) {
  for (const ActivationFunction& function : ActivationFunctions()) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

}  // namespace

const std::vector<ActivationFunction>& ActivationFunctions() {
  static const auto* functions = new std::vector<ActivationFunction>{
      {"abs"},
      {"acos"},
      {"acosh"},
      {"add", {{"other", std::nullopt}}},
      {"asin"},
      {"asinh"},
      {"atan"},
      {"atanh"},
      {"celu", {{"alpha", 1.0}}, "alpha must not be 0", [](const Arguments& a) { return a[0] != 0; }},
      {"clamp",
       {{"min", std::nullopt}, {"max", std::nullopt}},
       "max must not be below min",
       [](const Arguments& a) { return a[1] >= a[0]; }},
      {"clamp_max", {{"max", std::nullopt}}},
      {"clamp_min", {{"min", std::nullopt}}},
      {"cos"},
      {"cosh"},
      {"digamma"},
      {"elu", {{"alpha", 1.0}}},
      {"erf"},
      {"erfc"},
      {"erfinv"},
      {"exp"},
      {"exp2"},
      {"expm1"},
      {"frac"},
      {"gelu"},
      {"gelu_tanh"},
      {"hardshrink", {{"lambd", 0.5}}},
      {"hardsigmoid"},
      {"hardswish"},
      {"hardtanh",
       {{"min_val", -1.0}, {"max_val", 1.0}},
       "max_val must be above min_val",
       [](const Arguments& a) { return a[1] > a[0]; }},
      {"leaky_relu", {{"negative_slope", 0.01}}},
      {"lgamma"},
      {"log"},
      {"log10"},
      {"log1p"},
      {"log2"},
      {"log_sigmoid"},
      {"logit"},
      {"mish"},
      {"mul", {{"other", std::nullopt}}},
      {"neg"},
      {"pow", {{"exponent", std::nullopt}}},
      {"prelu",
       {{"num_parameters", 1.0}, {"init", 0.25}},
       "num_parameters must be 1 or the number of channels",
       [](const Arguments& a) { return a[0] >= 1 && a[0] == std::floor(a[0]); }},
      {"reciprocal"},
      {"relu"},
      {"relu6"},
      {"root"},
      {"rsqrt"},
      {"rsub", {{"other", std::nullopt}}},
      {"selu"},
      {"sigmoid"},
      {"silu"},
      {"sin"},
      {"sinc"},
      {"sinh"},
      {"softplus",
       {{"beta", 1.0}, {"threshold", 20.0}},
       "beta must not be 0",
       [](const Arguments& a) { return a[0] != 0; }},
      {"softshrink", {{"lambd", 0.5}}, "lambd must be at least 0", [](const Arguments& a) { return a[0] >= 0; }},
      {"softsign"},
      {"sqrt"},
      {"square"},
      {"tan"},
      {"tanh"},
      {"tanhshrink"},
      {"threshold", {{"threshold", std::nullopt}, {"value", std::nullopt}}},
  };
  return *functions;
}

ActivationDomain DomainOf(const std::string& name) {
  static const auto* domains = new std::map<std::string, ActivationDomain>{
      {"acos", ActivationDomain::kWithinOne},   {"acosh", ActivationDomain::kAboveOne},
      {"asin", ActivationDomain::kWithinOne},   {"atanh", ActivationDomain::kWithinOne},
      {"digamma", ActivationDomain::kPositive}, {"erfinv", ActivationDomain::kWithinOne},
      {"lgamma", ActivationDomain::kPositive},  {"log", ActivationDomain::kPositive},
      {"log10", ActivationDomain::kPositive},   {"log1p", ActivationDomain::kPositive},
      {"log2", ActivationDomain::kPositive},    {"logit", ActivationDomain::kFromZeroToOne},
      {"pow", ActivationDomain::kPositive},     {"reciprocal", ActivationDomain::kPositive},
      {"root", ActivationDomain::kPositive},    {"rsqrt", ActivationDomain::kPositive},
      {"sqrt", ActivationDomain::kPositive}};
  const auto found = domains->find(name);
  return found == domains->end() ? ActivationDomain::kAll : found->second;
}

absl::StatusOr<std::vector<double>> ArgumentsOf(const Activation& spec) {
  if (spec.fn().empty()) {
    return AtField("fn", InvalidSpec("activation.fn is missing; these are: ", KnownNames()));
  }
  const ActivationFunction* function = Find(spec.fn());
  if (function == nullptr) {
    return AtField("fn", InvalidSpec("activation \"", spec.fn(), "\" is not known; these are: ", KnownNames()));
  }
  const int most = static_cast<int>(function->arguments.size());
  if (spec.arg_size() > most) {
    return AtField(absl::StrCat("arg[", most, "]"),
                   InvalidSpec(Signature(*function), " has ", most == 0 ? "no" : absl::StrCat(most),
                               most == 1 ? " argument" : " arguments", ", but ", spec.arg_size(), " are given"));
  }
  std::vector<double> arguments;
  for (int i = 0; i < most; ++i) {
    const ActivationArgument& argument = function->arguments[i];
    if (i >= spec.arg_size() && !argument.otherwise.has_value()) {
      return AtField("arg", InvalidSpec("argument ", argument.name, " of ", Signature(*function), " is missing"));
    }
    arguments.push_back(i < spec.arg_size() ? spec.arg(i) : *argument.otherwise);
    if (!std::isfinite(arguments.back())) {
      return AtField(absl::StrCat("arg[", i, "]"), InvalidSpec("argument ", argument.name, " of ", function->name,
                                                               " is ", arguments.back(), "; it must be finite"));
    }
  }
  if (function->in_range != nullptr && !function->in_range(arguments)) {
    return AtField("arg", InvalidSpec("of ", function->name, ", ", function->range, "; its arguments are ",
                                      absl::StrJoin(arguments, ", ")));
  }
  return arguments;
}

}  // namespace adjoin
