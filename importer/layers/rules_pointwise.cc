// Element-wise functions of one value, softmax, dropout.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/layers/op_rules.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

// A function of a job: its name, and the names and defaults that its arguments have in ATen, which are also a job's.
struct Function {
  const char* name;
  std::vector<std::pair<const char*, double>> arguments;
};

const std::map<std::string, Function>& Functions() {
  static const auto* functions = new std::map<std::string, Function>{
      {"abs", {"abs", {}}},
      {"absolute", {"abs", {}}},
      {"acos", {"acos", {}}},
      {"acosh", {"acosh", {}}},
      {"arccos", {"acos", {}}},
      {"arccosh", {"acosh", {}}},
      {"arcsin", {"asin", {}}},
      {"arcsinh", {"asinh", {}}},
      {"arctan", {"atan", {}}},
      {"arctanh", {"atanh", {}}},
      {"asin", {"asin", {}}},
      {"asinh", {"asinh", {}}},
      {"atan", {"atan", {}}},
      {"atanh", {"atanh", {}}},
      {"celu", {"celu", {{"alpha", 1.0}}}},
      {"cos", {"cos", {}}},
      {"cosh", {"cosh", {}}},
      {"digamma", {"digamma", {}}},
      {"erf", {"erf", {}}},
      {"erfc", {"erfc", {}}},
      {"erfinv", {"erfinv", {}}},
      {"exp", {"exp", {}}},
      {"exp2", {"exp2", {}}},
      {"expm1", {"expm1", {}}},
      {"frac", {"frac", {}}},
      {"hardshrink", {"hardshrink", {{"lambd", 0.5}}}},
      {"hardsigmoid", {"hardsigmoid", {}}},
      {"hardswish", {"hardswish", {}}},
      {"hardtanh", {"hardtanh", {{"min_val", -1.0}, {"max_val", 1.0}}}},
      {"leaky_relu", {"leaky_relu", {{"negative_slope", 0.01}}}},
      {"lgamma", {"lgamma", {}}},
      {"log", {"log", {}}},
      {"log10", {"log10", {}}},
      {"log1p", {"log1p", {}}},
      {"log2", {"log2", {}}},
      {"log_sigmoid", {"log_sigmoid", {}}},
      {"mish", {"mish", {}}},
      {"neg", {"neg", {}}},
      {"negative", {"neg", {}}},
      {"reciprocal", {"reciprocal", {}}},
      {"relu", {"relu", {}}},
      {"relu6", {"relu6", {}}},
      {"rsqrt", {"rsqrt", {}}},
      {"selu", {"selu", {}}},
      {"sigmoid", {"sigmoid", {}}},
      {"silu", {"silu", {}}},
      {"sin", {"sin", {}}},
      {"sinc", {"sinc", {}}},
      {"sinh", {"sinh", {}}},
      {"softplus", {"softplus", {{"beta", 1.0}, {"threshold", 20.0}}}},
      {"softshrink", {"softshrink", {{"lambd", 0.5}}}},
      {"special_digamma", {"digamma", {}}},
      {"special_erf", {"erf", {}}},
      {"special_erfc", {"erfc", {}}},
      {"special_erfinv", {"erfinv", {}}},
      {"special_exp2", {"exp2", {}}},
      {"special_expit", {"sigmoid", {}}},
      {"special_expm1", {"expm1", {}}},
      {"special_gammaln", {"lgamma", {}}},
      {"special_log1p", {"log1p", {}}},
      {"special_psi", {"digamma", {}}},
      {"special_sinc", {"sinc", {}}},
      {"sqrt", {"sqrt", {}}},
      {"square", {"square", {}}},
      {"tan", {"tan", {}}},
      {"tanh", {"tanh", {}}},
  };
  return *functions;
}

absl::Status AddFunction(const OpNode& node, LayerBuilder& builder, const std::string& name,
                         const std::vector<double>& arguments) {
  Layer layer;
  layer.mutable_activation()->set_fn(name);
  for (double argument : arguments) {
    if (!std::isfinite(argument)) return Unsupported("it has an argument that is not finite");
    layer.mutable_activation()->add_arg(argument);
  }
  if (!builder.SameType(node.Tensor("self"), node.outputs.empty() ? "" : node.outputs[0])) {
    return Unsupported("it changes the type of its tensor; precision.compute is a job's one type");
  }
  return builder.AddElementWise(node, std::move(layer), node.Tensor("self"));
}

absl::Status ElementWise(const OpNode& node, LayerBuilder& builder) {
  const Function& function = Functions().at(node.op);
  std::vector<double> arguments;
  bool all_defaults = true;
  for (const auto& [name, otherwise] : function.arguments) {
    arguments.push_back(node.Float(name, otherwise));
    all_defaults = all_defaults && arguments.back() == otherwise;
  }
  if (all_defaults) arguments.clear();
  return AddFunction(node, builder, function.name, arguments);
}

absl::Status Elu(const OpNode& node, LayerBuilder& builder) {
  if (node.Float("scale", 1) != 1 || node.Float("input_scale", 1) != 1) {
    return Unsupported("its scale and input_scale must be 1");
  }
  const double alpha = node.Float("alpha", 1);
  return AddFunction(node, builder, "elu", alpha == 1 ? std::vector<double>() : std::vector<double>{alpha});
}

absl::Status Gelu(const OpNode& node, LayerBuilder& builder) {
  return AddFunction(node, builder, node.Text("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu", {});
}

absl::Status Logit(const OpNode& node, LayerBuilder& builder) {
  if (node.Has("eps")) return Unsupported("it has an eps; right would be a clamp, and torch.logit without one");
  return AddFunction(node, builder, "logit", {});
}

absl::Status Threshold(const OpNode& node, LayerBuilder& builder) {
  return AddFunction(node, builder, "threshold", {node.Float("threshold", 0), node.Float("value", 0)});
}

absl::Status Prelu(const OpNode& node, LayerBuilder& builder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> weight, builder.Shape(node.Tensor("weight")));
  if (weight.size() > 1) return Unsupported("its weight has ", weight.size(), " dims");
  Layer layer;
  layer.mutable_activation()->set_fn("prelu");
  if (!weight.empty() && weight[0] != 1) layer.mutable_activation()->add_arg(static_cast<double>(weight[0]));
  const std::vector<LayerParameter> parameters = {{"weight", node.Tensor("weight")}};
  if (layer.activation().arg().empty()) {
    return builder.AddElementWise(node, std::move(layer), node.Tensor("self"), parameters);
  }
  return builder.Add(node, std::move(layer), {node.Tensor("self")}, parameters);
}

absl::Status AddSoftmax(const OpNode& node, LayerBuilder& builder, bool log) {
  const std::string input = node.Tensor("self");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(input));
  const int64_t dim = DimFromFirst(node.Int("dim", -1), shape.size());
  if (dim < 0) return Unsupported("its dim is not one of its input");
  if (!builder.SameType(input, node.outputs.empty() ? "" : node.outputs[0])) {
    return Unsupported("it changes the type of its tensor; precision.compute is a job's one type");
  }
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align({input}));
  if (aligned.DimOf(dim) < 1) return Unsupported("it is over the batch; right would be another dim");
  Layer layer;
  const int64_t written = aligned.moved || aligned.of_parameters ? aligned.DimOf(dim) : node.Int("dim", -1);
  layer.mutable_softmax()->set_dim(static_cast<int32_t>(written));
  if (log) layer.mutable_softmax()->set_log(true);
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  return builder.SetResult(node, made, aligned);
}
absl::Status SoftmaxLayer(const OpNode& node, LayerBuilder& builder) { return AddSoftmax(node, builder, false); }
absl::Status LogSoftmax(const OpNode& node, LayerBuilder& builder) { return AddSoftmax(node, builder, true); }

// A model is exported as it predicts, and trained with the dropout that it then has.
absl::Status AddDropout(const OpNode& node, LayerBuilder& builder, bool channel) {
  // "self" in those that work in place.
  const std::string input = node.Tensor(node.Has("input") ? "input" : "self");
  const double p = node.Float("p", 0.5);
  if (p == 0) return builder.Alias(node, input);
  if (node.Bool("train", false)) {
    return Unsupported("its result is random in the exported program; right would be an export after model.eval()");
  }
  Layer layer;
  layer.mutable_dropout()->set_p(p);
  if (channel) layer.mutable_dropout()->set_channel(true);
  ADJOIN_RETURN_IF_ERROR(channel ? builder.Add(node, std::move(layer), {input})
                                 : builder.AddElementWise(node, std::move(layer), input));
  builder.ShareElements(node, input);
  return absl::OkStatus();
}
absl::Status DropoutLayer(const OpNode& node, LayerBuilder& builder) { return AddDropout(node, builder, false); }
absl::Status ChannelDropout(const OpNode& node, LayerBuilder& builder) { return AddDropout(node, builder, true); }

}  // namespace

const OpRules& PointwiseRules() {
  static const auto* rules = [] {
    auto* all = new OpRules{
        {"_log_softmax", LogSoftmax},
        {"_softmax", SoftmaxLayer},
        {"dropout", DropoutLayer},
        {"elu", Elu},
        {"feature_dropout", ChannelDropout},
        {"gelu", Gelu},
        {"log_softmax", LogSoftmax},
        {"logit", Logit},
        {"prelu", Prelu},
        {"special_logit", Logit},
        {"softmax", SoftmaxLayer},
        {"threshold", Threshold},
    };
    for (const auto& [op, function] : Functions()) (*all)[op] = ElementWise;
    return all;
  }();
  return *rules;
}

}  // namespace adjoin
