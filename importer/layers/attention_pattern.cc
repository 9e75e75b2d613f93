#include "importer/layers/attention_pattern.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

class AttentionFinder {
 public:
  explicit AttentionFinder(const OpGraph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string& output : graph.nodes[i].outputs) producer_[output] = i;
      for (const auto& [name, argument] : graph.nodes[i].arguments) {
        for (const std::string& tensor : argument.tensors) readers_[tensor].insert(i);
      }
    }
  }

  std::optional<AttentionPattern> At(size_t product) {
    found_ = AttentionPattern();
    const OpNode& node = graph_.nodes[product];
    found_.nodes.insert(product);
    found_.causal = node.Bool("is_causal", false);
    if (node.Float("dropout_p", 0) != 0) return std::nullopt;  // refused by its name
    if (node.Has("attn_mask") || node.Has("scale") || node.Bool("enable_gqa", false)) return std::nullopt;
    const Extents heads = ShapeOf(node.Tensor("query"));  // [batch, heads, length, features of a head]
    if (heads.size() != 4) return std::nullopt;
    found_.heads = heads[1];
    if (!Before(node, heads) || !After(node, heads)) return std::nullopt;
    // Nothing but the result is read from outside.
    for (size_t i : found_.nodes) {
      if (graph_.nodes[i].in_place || !graph_.nodes[i].UnreadArgument().empty()) return std::nullopt;
      for (const std::string& output : graph_.nodes[i].outputs) {
        for (size_t reader : readers_[output]) {
          if (i != found_.last && found_.nodes.count(reader) == 0) return std::nullopt;
        }
      }
    }
    return found_;
  }

 private:
  Extents ShapeOf(const std::string& value) const {
    const auto found = graph_.tensors.find(value);
    return found == graph_.tensors.end() ? Extents() : found->second.shape;
  }

  // The operator that makes `value`, where it is `op`; it becomes part of the pattern.
  const OpNode* Up(const std::string& value, const char* op, size_t* index = nullptr) {
    const auto found = producer_.find(value);
    if (found == producer_.end() || graph_.nodes[found->second].op != op) return nullptr;
    found_.nodes.insert(found->second);
    if (index != nullptr) *index = found->second;
    return &graph_.nodes[found->second];
  }

  // The only operator that reads the node's output, likewise.
  const OpNode* Down(const OpNode* node, const char* op, size_t* index) {
    const auto found = readers_.find(node->outputs[0]);
    if (found == readers_.end() || found->second.size() != 1) return nullptr;
    *index = *found->second.begin();
    if (graph_.nodes[*index].op != op || graph_.nodes[*index].outputs.empty()) return nullptr;
    found_.nodes.insert(*index);
    return &graph_.nodes[*index];
  }

  static bool Swaps(const OpNode& node, int64_t a, int64_t b) {
    const int64_t first = node.Int("dim0", 0), second = node.Int("dim1", 0);
    return (first == a && second == b) || (first == b && second == a);
  }

  bool IsParameterCalled(const std::string& value, const char* name) const {
    const auto found = graph_.parameters.find(value);
    return found != graph_.parameters.end() && absl::EndsWith(found->second, name);
  }

  bool Before(const OpNode& product, const Extents& heads) {
    const int64_t batch = heads[0], length = heads[2], features = heads[1] * heads[3];
    std::string stack;
    int64_t part = 0;
    for (const char* role : {"query", "key", "value"}) {
      if (ShapeOf(product.Tensor(role)) != heads) return false;
      const OpNode* whole = Up(product.Tensor(role), "view");
      const OpNode* swapped = whole == nullptr ? nullptr : Up(whole->Tensor("self"), "transpose");
      const OpNode* split =
          swapped == nullptr || !Swaps(*swapped, 0, 1) ? nullptr : Up(swapped->Tensor("self"), "view");
      const OpNode* select = split == nullptr ? nullptr : Up(split->Tensor("self"), "select");
      if (select == nullptr || select->Int("dim", -1) != 0 || select->Int("index", -1) != part++) return false;
      if (ShapeOf(split->outputs[0]) != Extents{length, batch * heads[1], heads[3]}) return false;
      if (!stack.empty() && select->Tensor("self") != stack) return false;
      stack = select->Tensor("self");
    }
    const OpNode* contiguous = Up(stack, "contiguous");
    const OpNode* squeeze = contiguous == nullptr ? nullptr : Up(contiguous->Tensor("self"), "squeeze");
    const OpNode* swap = squeeze == nullptr ? nullptr : Up(squeeze->Tensor("self"), "transpose");
    const OpNode* unsqueeze = swap == nullptr || !Swaps(*swap, 0, -2) ? nullptr : Up(swap->Tensor("self"), "unsqueeze");
    const OpNode* unflatten = unsqueeze == nullptr ? nullptr : Up(unsqueeze->Tensor("self"), "unflatten");
    const OpNode* linear = unflatten == nullptr ? nullptr : Up(unflatten->Tensor("self"), "linear", &found_.in_proj);
    const OpNode* first = linear == nullptr ? nullptr : Up(linear->Tensor("input"), "transpose");
    if (first == nullptr || !Swaps(*first, 0, 1) || unsqueeze->Int("dim", -1) != 0) return false;
    if (ShapeOf(unflatten->outputs[0]) != Extents{length, batch, 3, features}) return false;
    if (ShapeOf(stack) != Extents{3, length, batch, features}) return false;
    found_.input = first->Tensor("self");
    return ShapeOf(found_.input) == Extents{batch, length, features} &&
           IsParameterCalled(linear->Tensor("weight"), "in_proj_weight");
  }

  bool After(const OpNode& product, const Extents& heads) {
    const int64_t batch = heads[0], length = heads[2], features = heads[1] * heads[3];
    size_t index = 0;
    const OpNode* permute = product.outputs.empty() ? nullptr : Down(&product, "permute", &index);
    if (permute == nullptr || permute->Ints("dims") != Extents{2, 0, 1, 3}) return false;
    const OpNode* rows = Down(permute, "view", &index);
    const OpNode* linear = rows == nullptr ? nullptr : Down(rows, "linear", &found_.out_proj);
    const OpNode* view = linear == nullptr ? nullptr : Down(linear, "view", &index);
    const OpNode* last = view == nullptr ? nullptr : Down(view, "transpose", &found_.last);
    return last != nullptr && Swaps(*last, 0, 1) && ShapeOf(view->outputs[0]) == Extents{length, batch, features} &&
           linear->Tensor("input") == rows->outputs[0] &&
           IsParameterCalled(linear->Tensor("weight"), "out_proj.weight") &&
           linear->Tensor("bias").empty() == graph_.nodes[found_.in_proj].Tensor("bias").empty();
  }

  const OpGraph& graph_;
  std::map<std::string, size_t> producer_;
  std::map<std::string, std::set<size_t>> readers_;
  AttentionPattern found_;
};

}  // namespace

std::vector<AttentionPattern> FindAttention(const OpGraph& graph) {
  std::vector<AttentionPattern> patterns;
  AttentionFinder finder(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != "scaled_dot_product_attention") continue;
    std::optional<AttentionPattern> found = finder.At(i);
    if (found.has_value()) patterns.push_back(*std::move(found));
  }
  return patterns;
}

absl::Status AddAttention(const OpGraph& graph, const AttentionPattern& pattern, LayerBuilder& builder) {
  const OpNode &in = graph.nodes[pattern.in_proj], &out = graph.nodes[pattern.out_proj];
  Layer layer;
  layer.mutable_attention()->set_heads(static_cast<uint32_t>(pattern.heads));
  if (pattern.causal) layer.mutable_attention()->set_causal(true);
  if (in.Tensor("bias").empty()) layer.mutable_attention()->set_bias(false);
  return builder.Add(graph.nodes[pattern.last], std::move(layer), {pattern.input},
                     {{"in_proj_weight", in.Tensor("weight")},
                      {"in_proj_bias", in.Tensor("bias")},
                      {"out_proj.weight", out.Tensor("weight")},
                      {"out_proj.bias", out.Tensor("bias")}});
}

}  // namespace adjoin
