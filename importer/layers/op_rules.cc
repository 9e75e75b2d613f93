#include "importer/layers/op_rules.h"

#include <utility>

#include "base/status_macros.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {

std::vector<const OpRules*> AllOpRules() {
  return {&ArithmeticRules(), &ConvolutionRules(), &NormRules(),  &PointwiseRules(), &PoolRules(),
          &ProductRules(),    &ReduceRules(),      &ShapeRules(), &SliceRules()};
}

const OpRule* FindOpRule(const std::string& op) {
  for (const OpRules* rules : AllOpRules()) {
    const auto found = rules->find(op);
    if (found != rules->end()) return &found->second;
  }
  return nullptr;
}

absl::Status AddOverLastDims(const OpNode& node, Layer layer, size_t last, LayerBuilder& builder,
                             const std::vector<LayerParameter>& parameters) {
  const std::string input = node.Tensor(node.Has("input") ? "input" : "self");
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, builder.Shape(input));
  ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs aligned, builder.Align({input}));
  if (shape.size() + (aligned.of_parameters ? 1 : 0) <= last ||
      (aligned.moved && aligned.batch_dim + last >= shape.size())) {
    return Unsupported("it reads the batch's dim; right would be the dims after the batch");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources, parameters));
  return builder.SetResult(node, made, aligned);
}

bool ReturnsNew(const std::string& op) {
  if (op == "dropout" || op == "feature_dropout") return false;  // the argument itself where it does nothing
  if (op == "cat" || op == "clone" || op == "concat" || op == "flip" || op == "roll" || op == "stack") return true;
  return FindOpRule(op) != nullptr && ShapeRules().count(op) == 0 && SliceRules().count(op) == 0 && op != "pad" &&
         op != "constant_pad_nd";
}

std::string NearestLayer(const std::string& op) {
  static const auto* nearest = new std::map<std::string, std::string>{
      {"argmax", "reduce { kind: \"amax\" }, for the value itself"},
      {"cumsum", "reduce { kind: \"sum\" }"},
      {"gru", "custom"},
      {"lstm", "custom"},
      {"max", "reduce { kind: \"amax\" }"},
      {"min", "reduce { kind: \"amin\" }"},
      {"var_mean", "reduce { kind: \"var\" }"},
  };
  const auto found = nearest->find(op);
  return found == nearest->end() ? "" : found->second;
}

}  // namespace adjoin
