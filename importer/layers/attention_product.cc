#include "importer/layers/attention_product.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "importer/layers/rule_arguments.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

constexpr double kLeast = -1e30;  // no score is that small
constexpr int kMostSteps = 12;    // between the two products

// -- One layer

struct HeadsRequest {
  std::pair<std::string, ValueView> query, key, value;  // [..., length, features], the same before these two
  double scale = 0;                                     // 0: that of the features
  double dropout = 0;
  bool causal = false;
  std::optional<ConstantTensor> bias = std::nullopt;  // of the scores, in float64
  std::string bias_value;                             // or a value of the graph
  Extents result_order = {};                          // of the result's dims, where it is another one
};

// [batch, length, heads * features] of [batch, heads ..., length, features].
absl::StatusOr<ValueView> HeadsLast(const ValueView& view) {
  const Extents shape = view.shape();
  Extents order = {0, static_cast<int64_t>(shape.size()) - 2};
  int64_t features = 1;
  for (size_t i = 1; i < shape.size(); ++i) {
    if (i + 2 == shape.size()) continue;
    order.push_back(static_cast<int64_t>(i));
    if (shape[i] < 1 || features > INT64_MAX / shape[i]) return Unsupported("its extents are not fixed");
    features *= shape[i];
  }
  return view.Permuted(order).Reshaped({shape[0], shape[shape.size() - 2], features});
}

// A bias of 0 where a query sees a key that is not behind it, and of minus infinity elsewhere.
bool IsCausal(const ConstantTensor& bias) {
  const int64_t keys = bias.shape.back(), queries = bias.shape[bias.shape.size() - 2];
  for (int64_t i = 0; i < bias.Elements(); ++i) {
    const int64_t key = i % keys, query = i / keys % queries;
    if (bias.At(i) != (key > query ? -INFINITY : 0.0)) return false;
  }
  return keys > 1;
}

bool IsZero(const ConstantTensor& bias) {
  for (int64_t i = 0; i < bias.Elements(); ++i) {
    if (bias.At(i) != 0) return false;
  }
  return true;
}

// A bias as [1, heads, queries, keys], with 1 for what it lacks.
absl::Status ToFourDims(const ValueView& scores_like, ConstantTensor& bias) {
  Extents& shape = bias.shape;
  if (shape.size() > scores_like.dims()) return Unsupported("its mask has more dims than its scores");
  while (shape.size() > 4 && shape[0] == 1) shape.erase(shape.begin());
  shape.insert(shape.begin(), shape.size() < 4 ? 4 - shape.size() : 0, 1);
  const bool of_heads = scores_like.dims() == 4 && scores_like.BatchDim() == 0 && scores_like.BatchIsAlone();
  if (shape.size() != 4 || shape[0] != 1 || (shape[1] != 1 && !of_heads)) {
    return Unsupported("its mask is not [queries, keys] or [1, heads, queries, keys]");
  }
  return absl::OkStatus();
}

absl::Status AddHeads(const OpNode& node, LayerBuilder& builder, HeadsRequest request) {
  if (node.outputs.empty()) return Unsupported("it returns nothing");
  const Extents of_query = request.query.second.shape(), of_key = request.key.second.shape(),
                of_value = request.value.second.shape();
  const size_t dims = of_query.size();
  if (dims < 3 || of_key.size() != dims || of_value.size() != dims) {
    return Unsupported("its queries, keys and values are not [batch, ..., length, features] alike");
  }
  for (size_t i = 0; i + 2 < dims; ++i) {
    if (of_query[i] != of_key[i] || of_query[i] != of_value[i]) {
      return Unsupported("its queries, keys and values have different extents before the last two dims");
    }
  }
  if (of_query[dims - 1] != of_key[dims - 1] || of_key[dims - 2] != of_value[dims - 2]) {
    return Unsupported("its queries, keys and values do not fit each other");
  }
  for (const auto* part : {&request.query, &request.key, &request.value}) {
    if (!part->second.HasBatch()) return Unsupported("its queries, keys or values are functions of parameters alone");
  }
  Layer layer;
  Attention& attention = *layer.mutable_attention();
  attention.set_projections(false);
  std::vector<std::pair<std::string, ValueView>> inputs = {request.query, request.key, request.value};
  AlignedInputs where;  // the batch is alike in all three
  for (auto& [name, view] : inputs) {
    const AlignedInputs own{.sources = {},
                            .moved = view.BatchDim() != 0 || !view.BatchIsAlone(),
                            .batch_dim = view.BatchDim(),
                            .beside = view.BesideBatch()};
    if (&name != &inputs[0].first &&
        (own.moved != where.moved || own.batch_dim != where.batch_dim || own.beside != where.beside)) {
      return Unsupported("its inputs have the batch in different places");
    }
    where = own;
  }
  if (where.batch_dim + 2 >= dims) return Unsupported("it attends to other samples of the batch");
  const Extents heads_of = where.moved ? request.query.second.BatchFirst().shape() : of_query;
  int64_t heads = 1;
  for (size_t i = 1; i + 2 < heads_of.size(); ++i) {
    if (heads_of[i] < 1 || heads > INT32_MAX / heads_of[i]) return Unsupported("its heads are not fixed, or too many");
    heads *= heads_of[i];
  }
  if (heads < 1 || heads > INT32_MAX) return Unsupported("it has ", heads, " heads");
  attention.set_heads(static_cast<uint32_t>(heads));
  for (auto& [name, view] : inputs) {
    ADJOIN_ASSIGN_OR_RETURN(view, HeadsLast(where.moved ? view.BatchFirst() : view));
  }
  const double usual = 1 / std::sqrt(static_cast<double>(of_query.back()));
  if (request.scale != 0 && std::abs(request.scale - usual) > 1e-15 * usual) attention.set_scale(request.scale);
  if (request.dropout != 0) attention.set_dropout(request.dropout);
  if (request.bias.has_value()) {
    ADJOIN_RETURN_IF_ERROR(ToFourDims(request.query.second, *request.bias));
    const Extents of_bias = request.bias->shape, scores = {heads, of_query[dims - 2], of_key[dims - 2]};
    for (size_t i = 0; i < 3; ++i) {
      if (of_bias[i + 1] != 1 && of_bias[i + 1] != scores[i]) return Unsupported("its mask does not fit its scores");
    }
    if (request.bias->Elements() == 0) return Unsupported("its mask has no elements");
    if (IsZero(*request.bias)) {
      request.bias.reset();
    } else if (IsCausal(*request.bias) && request.bias->shape[2] == of_query[dims - 2] &&
               request.bias->shape[3] == of_key[dims - 2]) {
      request.causal = true;
      request.bias.reset();
    }
  }
  if (request.causal) attention.set_causal(true);
  ADJOIN_ASSIGN_OR_RETURN(AlignedInputs aligned, builder.Align(inputs));
  if (request.bias.has_value()) {
    ADJOIN_ASSIGN_OR_RETURN(std::string bias,
                            builder.ConstantPerSample(node, *std::move(request.bias), aligned.sources[0]));
    aligned.sources.push_back(std::move(bias));
    attention.set_score_bias(true);
  } else if (!request.bias_value.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const Extents shape, builder.Shape(request.bias_value));
    if (dims != 4 || where.moved || shape.size() != 4 || !builder.SameType(request.bias_value, request.query.first)) {
      return Unsupported("its mask is not [batch or 1, heads or 1, queries, keys] of the type of its queries");
    }
    const ParameterView* parameter = builder.ParameterOf(request.bias_value);
    if (parameter != nullptr) {
      ADJOIN_ASSIGN_OR_RETURN(const ParameterView view,
                              parameter->Expanded({builder.Batch(), shape[1], shape[2], shape[3]}));
      ADJOIN_ASSIGN_OR_RETURN(std::string bias, builder.PerSample(request.bias_value, view, aligned.sources[0]));
      aligned.sources.push_back(std::move(bias));
    } else if (builder.IsOfParameters(request.bias_value)) {
      if (shape[0] != 1) return Unsupported("its mask is one for each sample, and follows of parameters");
      ADJOIN_ASSIGN_OR_RETURN(const ValueView view, builder.ViewOf(request.bias_value));
      ADJOIN_ASSIGN_OR_RETURN(const AlignedInputs own,
                              builder.Align({std::pair(request.bias_value, view.WithBatch(0))}));
      aligned.sources.push_back(own.sources[0]);
    } else {
      ADJOIN_ASSIGN_OR_RETURN(std::string bias, builder.SourceOf(request.bias_value));
      aligned.sources.push_back(std::move(bias));
    }
    attention.set_score_bias(true);
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string made, builder.Append(node, std::move(layer), aligned.sources));
  // [batch, length, heads * features] back to where the dims were.
  Extents split = {builder.Batch(), of_query[dims - 2]}, order = {0};
  for (size_t i = 1; i + 2 < heads_of.size(); ++i) {
    split.push_back(heads_of[i]);
    order.push_back(static_cast<int64_t>(i) + 1);
  }
  split.push_back(of_value.back());
  order.insert(order.end(), {1, static_cast<int64_t>(split.size()) - 1});
  ADJOIN_ASSIGN_OR_RETURN(
      const ValueView parts,
      ValueView::Of({builder.Batch(), of_query[dims - 2], heads * of_value.back()}).Reshaped(split));
  Extents result = of_query;
  result.back() = of_value.back();
  ADJOIN_ASSIGN_OR_RETURN(ValueView view, where.Restored(parts.Permuted(order), result));
  if (!request.result_order.empty()) view = view.Permuted(request.result_order);
  return builder.SetResult(node, made, std::move(view));
}

// Truth values say which pairs take part; numbers are added.
ConstantTensor BiasOf(ConstantTensor mask, bool true_is_kept) {
  ConstantTensor bias;
  bias.dtype = DType::kFloat64;
  bias.shape = mask.shape;
  for (int64_t i = 0; i < mask.Elements(); ++i) {
    const bool is_kept = (mask.At(i) != 0) == true_is_kept;
    bias.reals.push_back(mask.dtype != DType::kBool ? mask.At(i) : is_kept ? 0.0 : -INFINITY);
  }
  return bias;
}

// -- The operators that are one

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
