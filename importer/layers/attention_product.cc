#include "importer/layers/attention_product.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "importer/layers/attention_heads.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

constexpr double kLeast = -1e30;  // no score is that small
constexpr int kMostSteps = 12;    // between the two products

// Where each letter of `to` is in `from`; none where they are in their order. Nothing where one is missing.
std::optional<Extents> OrderOf(const std::string& from, const std::string& to) {
  Extents order;
  for (char c : to) {
    if (from.find(c) == std::string::npos) return std::nullopt;
    order.push_back(static_cast<int64_t>(from.find(c)));
  }
  if (from.size() != to.size()) return std::nullopt;
  return from == to ? Extents() : order;
}

// "bihd,bjhd->bhij": of matrices [b, h, i, d] and [b, h, d, j]. Nothing for what is no such product.
std::optional<MatrixProduct> ProductOfEquation(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) return std::nullopt;
  const std::string a = text.substr(0, comma), b = text.substr(comma + 1, arrow - comma - 1),
                    y = text.substr(arrow + 2);
  std::string front, row, sum, column;
  for (const std::string* term : {&a, &b, &y}) {
    for (size_t i = 0; i < term->size(); ++i) {
      const bool is_letter = absl::ascii_isalpha(static_cast<unsigned char>((*term)[i]));
      if (!is_letter || term->find((*term)[i], i + 1) != std::string::npos) return std::nullopt;
    }
  }
  for (char c : y) {
    const bool in_a = a.find(c) != std::string::npos, in_b = b.find(c) != std::string::npos;
    if (!in_a && !in_b) return std::nullopt;
    (in_a && in_b ? front : in_a ? row : column).push_back(c);
  }
  for (char c : a) {
    if (y.find(c) == std::string::npos) sum.push_back(c);
  }
  if (row.size() != 1 || column.size() != 1 || sum.size() != 1) return std::nullopt;
  // A product of the scores has their order: [front, row, sum].
  std::string front_of_a;
  for (char c : a) {
    if (front.find(c) != std::string::npos) front_of_a.push_back(c);
  }
  const bool is_of_scores = a == front_of_a + row + sum;
  if (is_of_scores) front = front_of_a;
  const auto left = OrderOf(a, front + row + sum), right = OrderOf(b, front + sum + column);
  const auto result = OrderOf(front + row + column, y);
  if (!left.has_value() || !right.has_value() || !result.has_value()) return std::nullopt;
  return MatrixProduct{*left, *right, *result};
}

class ChainFinder {
 public:
  explicit ChainFinder(const OpGraph& graph) : graph_(graph), outputs_(graph.outputs.begin(), graph.outputs.end()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string& output : graph.nodes[i].outputs) producer_[output] = i;
      for (const auto& [name, argument] : graph.nodes[i].arguments) {
        for (const std::string& tensor : argument.tensors) ++readers_[tensor];
      }
    }
  }

  std::optional<AttentionChain> At(size_t product) {
    chain_ = AttentionChain();
    chain_.last = product;
    chain_.nodes = {product};
    std::string left;
    chain_.value_product = ProductOf(graph_.nodes[product], left, chain_.value);
    // The scores' dims are as they are; the result may have another order.
    if (!chain_.value_product.has_value() || !chain_.value_product->left.empty()) return std::nullopt;
    const OpNode* node = Inner(left);
    while (node != nullptr && (node->op == "dropout" || IsSame(*node))) {
      if (node->op == "dropout") {
        if (chain_.dropout != 0 || node->Bool("train", false)) return std::nullopt;
        chain_.dropout = node->Float("p", 0.5);
      }
      node = Inner(node->Tensor(node->Has("input") ? "input" : "self"));
    }
    if (node == nullptr || (node->op != "softmax" && node->op != "_softmax")) return std::nullopt;
    const auto shape = graph_.tensors.find(node->outputs[0]);
    if (shape == graph_.tensors.end()) return std::nullopt;
    if (DimFromFirst(node->Int("dim", 0), shape->second.shape.size()) + 1 !=
        static_cast<int64_t>(shape->second.shape.size())) {
      return std::nullopt;
    }
    if (!Scores(node->Tensor("self"), 0)) return std::nullopt;
    return chain_;
  }

 private:
  static std::optional<MatrixProduct> ProductOf(const OpNode& node, std::string& left, std::string& right) {
    if (node.outputs.empty()) return std::nullopt;
    if (node.op == "einsum") {
      const auto found = node.arguments.find("tensors");
      if (found == node.arguments.end() || found->second.tensors.size() != 2) return std::nullopt;
      left = found->second.tensors[0];
      right = found->second.tensors[1];
      return ProductOfEquation(node.Text("equation", ""));
    }
    if (node.op != "matmul" && node.op != "bmm" && node.op != "__matmul__") return std::nullopt;
    left = node.Tensor("self");
    right = node.Tensor(node.Has("mat2") ? "mat2" : "other");
    return left.empty() || right.empty() ? std::nullopt : std::optional(MatrixProduct());
  }

  // What changes neither elements, shape nor type.
  bool IsSame(const OpNode& node) const {
    if (node.op != "contiguous" && node.op != "clone" && node.op != "to" && node.op != "_to_copy" &&
        node.op != "alias" && node.op != "expand" && node.op != "view") {
      return false;
    }
    const auto from = graph_.tensors.find(node.Tensor("self")), to = graph_.tensors.find(node.outputs[0]);
    return from != graph_.tensors.end() && to != graph_.tensors.end() && from->second.shape == to->second.shape &&
           from->second.dtype == to->second.dtype;
  }

  // The operator that makes `value`, which nothing else reads; it becomes a part. Null where it is none.
  const OpNode* Inner(const std::string& value) {
    const auto found = producer_.find(value);
    if (found == producer_.end() || readers_[value] != 1 || outputs_.count(value) > 0) return nullptr;
    const OpNode& node = graph_.nodes[found->second];
    if (node.in_place || node.outputs.size() != 1 || !node.UnreadArgument().empty()) return nullptr;
    chain_.nodes.insert(found->second);
    return &node;
  }

  // From the softmax up to the first product: first masks, then factors.
  bool Scores(const std::string& value, int steps) {
    if (steps > kMostSteps) return false;
    const AttentionChain before = chain_;
    const OpNode* node = Inner(value);
    if (node == nullptr) return false;
    const size_t index = producer_.at(value);
    chain_.score_product = ProductOf(*node, chain_.query, chain_.key_turned);
    // Masks are of the scores as they are.
    if (chain_.score_product.has_value()) return chain_.score_product->result.empty();
    if (IsSame(*node)) return Scores(node->Tensor("self"), steps + 1);
    if (node->op == "mul" || node->op == "div") {
      chain_.factors.push_back(index);
      return Scores(node->Tensor("self"), steps + 1);
    }
    if (!chain_.factors.empty()) return false;
    std::vector<std::string> tries;
    if (node->op == "masked_fill") tries = {"self"};
    if (node->op == "add" || node->op == "where") tries = {"self", "other"};
    for (const std::string& name : tries) {
      if (node->Tensor(name).empty()) continue;
      const AttentionChain here = chain_;
      chain_.masks.push_back(index);
      chain_.scores.push_back(name);
      if (Scores(node->Tensor(name), steps + 1)) return true;
      chain_ = here;
    }
    chain_ = before;
    return false;
  }

  const OpGraph& graph_;
  const std::set<std::string> outputs_;
  std::map<std::string, size_t> producer_;
  std::map<std::string, int> readers_;
  AttentionChain chain_;
};

absl::StatusOr<double> FixedNumber(const OpNode& node, const std::string& name, LayerBuilder& builder) {
  const std::string value = node.Tensor(name);
  if (value.empty()) {
    if (!node.Has(name) || node.Floats(name).size() != 1) return Unsupported("its argument ", name, " is no number");
    return node.Float(name, 0);
  }
  if (!builder.IsConstant(value)) return Unsupported("its argument ", name, " is no number");
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<double> number, builder.NumberOf(value));
  if (!number.has_value()) return Unsupported("its argument ", name, " is no number");
  return *number;
}

absl::Status AddBias(ConstantTensor bias, HeadsRequest& request) {
  if (request.bias.has_value() || !request.bias_value.empty()) return Unsupported("it has several masks");
  request.bias = std::move(bias);
  return absl::OkStatus();
}

bool EachRowKeepsSome(const ConstantTensor& bias) {
  const int64_t keys = bias.shape.empty() ? 1 : bias.shape.back();  // one number is for all
  bool keeps = false;
  for (int64_t i = 0; i < bias.Elements(); ++i) {
    keeps = keeps || bias.At(i) == 0;
    if ((i + 1) % keys != 0) continue;
    if (!keeps) return false;
    keeps = false;
  }
  return true;
}

// What a mask of the scores adds to them.
absl::Status ReadMask(const OpNode& node, const std::string& scores, LayerBuilder& builder, HeadsRequest& request) {
  if (node.op == "add") {
    if (node.Float("alpha", 1) != 1) return Unsupported("its alpha must be 1");
    const std::string mask = node.Tensor(scores == "self" ? "other" : "self");
    if (builder.IsConstant(mask)) {
      ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, builder.ConstantOf(mask));
      if (constant.dtype == DType::kBool) return Unsupported("its mask is of truth values, which are added");
      return AddBias(BiasOf(std::move(constant), true), request);
    }
    if (mask.empty() || request.bias.has_value() || !request.bias_value.empty()) {
      return Unsupported("it has several masks");
    }
    request.bias_value = mask;
    return absl::OkStatus();
  }
  const bool fills = node.op == "masked_fill";
  const std::string mask = node.Tensor(fills ? "mask" : "condition");
  if (!builder.IsConstant(mask)) return Unsupported("its mask is computed of the input");
  ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, builder.ConstantOf(mask));
  if (constant.dtype != DType::kBool) return Unsupported("its mask is not of truth values");
  const std::string written = fills ? "value" : scores == "self" ? "other" : "self";
  ADJOIN_ASSIGN_OR_RETURN(const double number, FixedNumber(node, written, builder));
  ConstantTensor bias = BiasOf(std::move(constant), /*true_is_kept=*/!fills && scores == "self");
  // A finite number as small as torch.finfo(dtype).min does the same where a row has a score that stays.
  if (number != -INFINITY && (number > kLeast || !EachRowKeepsSome(bias))) {
    return Unsupported("its mask does not write minus infinity");
  }
  return AddBias(std::move(bias), request);
}

}  // namespace

std::vector<AttentionChain> FindAttentionChains(const OpGraph& graph) {
  std::vector<AttentionChain> chains;
  ChainFinder finder(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    std::optional<AttentionChain> found = finder.At(i);
    if (found.has_value()) chains.push_back(*std::move(found));
  }
  return chains;
}

absl::Status AddAttentionChain(const OpGraph& graph, const AttentionChain& chain, LayerBuilder& builder) {
  const OpNode& last = graph.nodes[chain.last];
  HeadsRequest request;
  request.scale = 1;
  for (size_t factor : chain.factors) {
    const OpNode& node = graph.nodes[factor];
    if (node.Has("rounding_mode")) return Unsupported("it rounds its scores");
    ADJOIN_ASSIGN_OR_RETURN(const double number, FixedNumber(node, "other", builder));
    request.scale *= node.op == "div" ? 1 / number : number;
  }
  if (!std::isfinite(request.scale) || request.scale == 0) return Unsupported("its scores are multiplied by 0");
  for (size_t i = 0; i < chain.masks.size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(ReadMask(graph.nodes[chain.masks[i]], chain.scores[i], builder, request));
  }
  request.dropout = chain.dropout;
  if (!builder.IsFloat(chain.query) || !builder.SameType(chain.query, chain.value) ||
      !builder.SameType(chain.query, chain.key_turned)) {
    return Unsupported("its tensors are of different types");
  }
  ADJOIN_ASSIGN_OR_RETURN(ValueView query, builder.ViewOf(chain.query));
  ADJOIN_ASSIGN_OR_RETURN(ValueView key, builder.ViewOf(chain.key_turned));
  ADJOIN_ASSIGN_OR_RETURN(ValueView value, builder.ViewOf(chain.value));
  for (auto [view, product_order] : {std::pair(&query, &chain.score_product->left),
                                     {&key, &chain.score_product->right},
                                     {&value, &chain.value_product->right}}) {
    if (product_order->empty()) continue;
    if (product_order->size() != view->dims()) return Unsupported("its equation has not a letter for each dim");
    *view = view->Permuted(*product_order);
  }
  request.result_order = chain.value_product->result;
  if (key.dims() < 3) return Unsupported("its keys are no matrices");
  Extents order;
  for (size_t i = 0; i < key.dims(); ++i) order.push_back(static_cast<int64_t>(i));
  std::swap(order[key.dims() - 1], order[key.dims() - 2]);
  request.query = {chain.query, std::move(query)};
  request.key = {chain.key_turned, key.Permuted(order)};
  request.value = {chain.value, std::move(value)};
  return AddHeads(last, builder, std::move(request));
}

absl::Status ScaledDotProductAttention(const OpNode& node, LayerBuilder& builder) {
  HeadsRequest request;
  for (auto [name, part] : {std::pair("query", &request.query), {"key", &request.key}, {"value", &request.value}}) {
    ADJOIN_ASSIGN_OR_RETURN(ValueView view, builder.ViewOf(node.Tensor(name)));
    *part = {node.Tensor(name), std::move(view)};
  }
  if (!builder.IsFloat(request.query.first) || !builder.SameType(request.query.first, request.key.first) ||
      !builder.SameType(request.query.first, request.value.first)) {
    return Unsupported("its tensors are of different types");
  }
  request.scale = node.Float("scale", 0);
  if (!std::isfinite(request.scale)) return Unsupported("its scale is not finite");
  if (node.Has("scale") && request.scale == 0) return Unsupported("its scores are multiplied by 0");
  if (node.Float("dropout_p", 0) != 0) {
    return Unsupported("its result is random in the exported program, whose dropout_p is not 0; right would be an ",
                       "export after model.eval(), with dropout_p=self.p if self.training else 0");
  }
  request.causal = node.Bool("is_causal", false);
  const std::string mask = node.Tensor("attn_mask");
  if (!mask.empty() && builder.IsConstant(mask)) {
    ADJOIN_ASSIGN_OR_RETURN(ConstantTensor constant, builder.ConstantOf(mask));
    request.bias = BiasOf(std::move(constant), /*true_is_kept=*/true);
  } else {
    request.bias_value = mask;
  }
  return AddHeads(node, builder, std::move(request));
}

}  // namespace adjoin
