#include "importer/layers/op_rules.h"

namespace adjoin {

const OpRule* FindOpRule(const std::string& op) {
  for (const OpRules* rules :
       {&ConvolutionRules(), &NormRules(), &PointwiseRules(), &PoolRules(), &ShapeRules(), &SliceRules()}) {
    const auto found = rules->find(op);
    if (found != rules->end()) return &found->second;
  }
  return nullptr;
}

bool ReturnsNew(const std::string& op) {
  if (op == "dropout" || op == "feature_dropout") return false;  // the argument itself where it does nothing
  if (op == "cat" || op == "clone" || op == "concat" || op == "flip" || op == "roll") return true;
  return FindOpRule(op) != nullptr && ShapeRules().count(op) == 0 && SliceRules().count(op) == 0 && op != "pad" &&
         op != "constant_pad_nd";
}

std::string NearestLayer(const std::string& op) {
  static const auto* nearest = new std::map<std::string, std::string>{
      {"baddbmm", "attention, or linear for a product with a parameter"},
      {"bmm", "attention, or linear for a product with a parameter"},
      {"div", "multiply, for the product of two layers' outputs"},
      {"einsum", "attention, or linear for a product with a parameter"},
      {"index", "index_select"},
      {"index_select", "index_select"},
      {"lstm", "custom"},
      {"matmul", "attention, or linear for a product with a parameter"},
      {"mean", "pool { mode: \"avg\" adaptive_size: 1 }, for a mean over all spatial dims"},
      {"mm", "linear, for a product with a parameter"},
      {"mul", "multiply, for the product of two layers' outputs"},
      {"scaled_dot_product_attention", "attention, of a torch.nn.MultiheadAttention with batch_first=True"},
      {"sub", "add"},
  };
  const auto found = nearest->find(op);
  return found == nearest->end() ? "" : found->second;
}

}  // namespace adjoin
