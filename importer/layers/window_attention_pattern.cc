#include "importer/layers/window_attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

constexpr double kMasked = -100;  // as torchvision writes it
constexpr int64_t kMostExtent = 1 << 20;
constexpr int64_t kMostCells = 4096;  // of a window

class WindowAttentionFinder {
 public:
  WindowAttentionFinder(const OpGraph& graph, ConstantEvaluator& constants) : graph_(graph), constants_(constants) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string& output : graph.nodes[i].outputs) producer_[output] = i;
      for (const auto& [name, argument] : graph.nodes[i].arguments) {
        for (const std::string& tensor : argument.tensors) readers_[tensor].insert(i);
      }
    }
    for (const std::string& output : graph.outputs) readers_[output].insert(graph.nodes.size());
  }

  // `nodes`: those of one module.
  std::optional<WindowAttentionPattern> Of(const std::set<size_t>& nodes) {
    found_ = WindowAttentionPattern();
    found_.nodes = nodes;
    if (!FindLast() || !After() || !Products() || !Before()) return std::nullopt;
    if (!HasTableIndex() || !HasMask()) return std::nullopt;
    return found_;
  }

 private:
  Extents ShapeOf(const std::string& value) const {
    const auto found = graph_.tensors.find(value);
    return found == graph_.tensors.end() ? Extents() : found->second.shape;
  }

  // The only value that is read from outside.
  bool FindLast() {
    int outside = 0;
    for (size_t i : found_.nodes) {
      const std::vector<std::string>& outputs = graph_.nodes[i].outputs;
      const bool is_size =
          std::all_of(outputs.begin(), outputs.end(), [](const std::string& output) { return output.empty(); });
      if (is_size && graph_.nodes[i].Changed().empty()) continue;  // of a batch that is not fixed
      if (!graph_.nodes[i].UnreadArgument().empty()) return false;
      for (const std::string& output : outputs) {
        if (output.empty()) continue;
        const std::set<size_t>& readers = readers_[output];
        if (!std::all_of(readers.begin(), readers.end(), [&](size_t r) { return found_.nodes.count(r) > 0; })) {
          ++outside;
          found_.last = i;
        }
      }
    }
    return outside == 1 && graph_.nodes[found_.last].outputs.size() == 1;
  }

  // The operator of the module that makes `at`, where it is `op`, and what it reads: `at` becomes its input.
  const OpNode* Up(std::string& at, const char* op) {
    const auto found = producer_.find(at);
    if (found == producer_.end() || found_.nodes.count(found->second) == 0) return nullptr;
    const OpNode& node = graph_.nodes[found->second];
    if (node.op != op || node.in_place || node.outputs.size() != 1) return nullptr;
    at = node.Tensor(node.Has("input") ? "input" : "self");
    return &node;
  }

  const OpNode* UpReshape(std::string& at) {
    const OpNode* node = Up(at, "reshape");
    return node != nullptr ? node : Up(at, "view");
  }

  // From the result back to what the heads return.
  bool After() {
    std::string at = graph_.nodes[found_.last].outputs[0];
    while (Up(at, "contiguous") != nullptr) {
    }
    result_ = ShapeOf(at);
    while (const OpNode* slice = Up(at, "slice")) {
      if (slice->Int("start", 0) != 0 || slice->Int("step", 1) != 1) return false;
    }
    padded_ = ShapeOf(at);  // [batch, rows, columns, channels]
    if (const OpNode* roll = Up(at, "roll")) {
      back_ = roll->Ints("shifts");
      if (roll->Ints("dims") != Extents{1, 2} || back_.size() != 2) return false;
    }
    if (UpReshape(at) == nullptr) return false;
    const OpNode* permute = Up(at, "permute");
    if (permute == nullptr || permute->Ints("dims") != Extents{0, 1, 3, 2, 4, 5}) return false;
    windows_ = ShapeOf(at);  // [batch, windows of rows, windows of columns, rows, columns, channels]
    if (UpReshape(at) == nullptr || windows_.size() != 6 || padded_.size() != 4) return false;
    found_.window = {windows_[3], windows_[4]};
    cells_ = found_.window[0] * found_.window[1];
    for (size_t i = 0; i < windows_.size(); ++i) {
      const bool is_any = i == 0 && windows_[i] == kAnyExtent;
      if (!is_any && (windows_[i] < 1 || windows_[i] > kMostExtent)) return false;
    }
    if (found_.window[0] > kMostCells || found_.window[1] > kMostCells || cells_ > kMostCells) return false;
    if (padded_ != Extents{windows_[0], windows_[1] * windows_[3], windows_[2] * windows_[4], windows_[5]})
      return false;
    if (const OpNode* dropout = Up(at, "dropout"); dropout != nullptr && dropout->Float("p", 0.5) != 0) return false;
    const OpNode* proj = Up(at, "linear");
    if (proj == nullptr) return false;
    found_.proj_weight = proj->Tensor("weight");
    found_.proj_bias = proj->Tensor("bias");
    if (UpReshape(at) == nullptr) return false;
    const OpNode* transpose = Up(at, "transpose");
    if (transpose == nullptr || transpose->Int("dim0", 0) != 1 || transpose->Int("dim1", 0) != 2) return false;
    heads_output_ = at;
    return true;
  }

  // The scores, their softmax, and what is weighted by it.
  bool Products() {
    std::string at = heads_output_;
    const auto product = producer_.find(at);
    if (Up(at, "matmul") == nullptr) return false;
    value_ = graph_.nodes[product->second].Tensor("other");
    if (const OpNode* dropout = Up(at, "dropout")) {
      found_.dropout = dropout->Float("p", 0.5);
      if (found_.dropout != 0 && dropout->Bool("train", false)) return false;  // refused by its name
    }
    const OpNode* softmax = Up(at, "softmax");
    if (softmax == nullptr || (softmax->Int("dim", 0) != -1 && softmax->Int("dim", 0) != 3)) return false;
    if (UpReshape(at) != nullptr) {
      const OpNode* masked = Up(at, "add");
      if (masked == nullptr || masked->Float("alpha", 1) != 1 || UpReshape(at) == nullptr) return false;
      mask_ = masked->Tensor("other");
    }
    const OpNode* biased = Up(at, "add");
    if (biased == nullptr || biased->Float("alpha", 1) != 1) return false;
    bias_ = biased->Tensor("other");
    const auto scores = producer_.find(at);
    if (Up(at, "matmul") == nullptr) return false;
    key_ = graph_.nodes[scores->second].Tensor("other");
    const OpNode* turned = Up(key_, "transpose");
    if (turned == nullptr || turned->Int("dim0", 0) != -2 || turned->Int("dim1", 0) != -1) return false;
    const OpNode* scaled = Up(at, "mul");
    if (scaled == nullptr || !scaled->Tensor("other").empty()) return false;
    scale_ = scaled->Float("other", 0);
    query_ = at;
    return true;
  }

  // From queries, keys and values to the input.
  bool Before() {
    std::string stack;
    int64_t part = 0;
    for (std::string at : {query_, key_, value_}) {
      const OpNode* select = Up(at, "select");
      if (select == nullptr || select->Int("dim", -1) != 0 || select->Int("index", -1) != part++) return false;
      if (!stack.empty() && at != stack) return false;
      stack = at;
    }
    const Extents of_stack = ShapeOf(stack);  // [3, batch * windows, heads, cells, features]
    const OpNode* permute = Up(stack, "permute");
    if (permute == nullptr || permute->Ints("dims") != Extents{2, 0, 3, 1, 4} || of_stack.size() != 5) return false;
    const int64_t channels = padded_[3], per_sample = windows_[1] * windows_[2];
    const int64_t all = windows_[0] >= 0 ? windows_[0] * per_sample : per_sample == 1 ? kAnyExtent : kComputedExtent;
    found_.heads = of_stack[2];
    if (found_.heads < 1 || of_stack != Extents{3, all, found_.heads, cells_, channels / found_.heads}) return false;
    if (channels % found_.heads != 0) return false;
    const double usual = 1 / std::sqrt(static_cast<double>(channels / found_.heads));
    if (!(std::abs(scale_ - usual) <= 1e-12 * usual)) return false;
    if (UpReshape(stack) == nullptr) return false;
    const OpNode* qkv = Up(stack, "linear");
    if (qkv == nullptr || ShapeOf(stack) != Extents{all, cells_, channels}) return false;
    found_.qkv_weight = qkv->Tensor("weight");
    found_.qkv_bias = qkv->Tensor("bias");
    if (found_.qkv_bias.empty() != found_.proj_bias.empty()) return false;
    if (UpReshape(stack) == nullptr) return false;
    const OpNode* order = Up(stack, "permute");
    if (order == nullptr || order->Ints("dims") != Extents{0, 1, 3, 2, 4, 5}) return false;
    if (ShapeOf(stack) != Extents{windows_[0], windows_[1], windows_[3], windows_[2], windows_[4], channels})
      return false;
    if (UpReshape(stack) == nullptr || ShapeOf(stack) != padded_) return false;
    if (const OpNode* roll = Up(stack, "roll")) {
      const Extents shifts = roll->Ints("shifts");
      if (roll->Ints("dims") != Extents{1, 2} || shifts.size() != 2 || back_.size() != 2) return false;
      for (int i : {0, 1}) {
        found_.shift[i] = -shifts[i];
        if (back_[i] != found_.shift[i] || found_.shift[i] < 0 || found_.shift[i] >= found_.window[i]) return false;
      }
    } else if (!back_.empty()) {
      return false;
    }
    if (const OpNode* pad = Up(stack, "pad")) {
      const Extents by = pad->Ints("pad");
      if (by.size() != 6 || by[0] != 0 || by[1] != 0 || by[2] != 0 || by[4] != 0) return false;
      if (pad->Text("mode", "constant") != "constant" || pad->Float("value", 0) != 0) return false;
    }
    found_.input = stack;
    const Extents shape = ShapeOf(stack);
    if (shape.size() != 4 || shape != result_) return false;
    for (int i : {0, 1}) {
      const int64_t window = found_.window[i];
      if ((shape[i + 1] + window - 1) / window * window != padded_[i + 1]) return false;
      // The layer does not shift a window that is its whole dim.
      if (found_.shift[i] > 0 && window >= padded_[i + 1]) return false;
    }
    return graph_.parameters.count(found_.qkv_weight) > 0 && graph_.parameters.count(found_.proj_weight) > 0;
  }

  std::optional<ConstantTensor> Constant(const std::string& value) {
    if (!constants_.IsConstant(value)) return std::nullopt;
    auto constant = constants_.Evaluate(value);
    return constant.ok() ? std::optional(*std::move(constant)) : std::nullopt;
  }

  // The bias: rows of the table by the distance of two cells, [1, heads, cells, cells].
  bool HasTableIndex() {
    std::string at = bias_;
    if (Up(at, "unsqueeze") == nullptr) return false;
    while (Up(at, "contiguous") != nullptr) {
    }
    const OpNode* permute = Up(at, "permute");
    if (permute == nullptr || permute->Ints("dims") != Extents{2, 0, 1}) return false;
    if (ShapeOf(at) != Extents{cells_, cells_, found_.heads} || UpReshape(at) == nullptr) return false;
    const OpNode* index = Up(at, "index");
    if (index == nullptr || graph_.parameters.count(at) == 0) return false;
    found_.table = at;
    const int64_t rows = found_.window[0], columns = found_.window[1];
    if (ShapeOf(at) != Extents{(2 * rows - 1) * (2 * columns - 1), found_.heads}) return false;
    const auto indices = index->arguments.find("indices");
    if (indices == index->arguments.end() || indices->second.tensors.size() != 1) return false;
    const auto known = Constant(indices->second.tensors[0]);
    if (!known.has_value() || known->Elements() != cells_ * cells_) return false;
    for (int64_t i = 0; i < known->Elements(); ++i) {
      const int64_t query = i / cells_, key = i % cells_;
      const int64_t down = query / columns - key / columns + rows - 1;
      const int64_t right = query % columns - key % columns + columns - 1;
      if (known->At(i) != static_cast<double>(down * (2 * columns - 1) + right)) return false;
    }
    return true;
  }

  // Which of the parts that the shift brought together a cell of the rolled tensor is in.
  int64_t RegionOf(int64_t cell, int dim) const {
    const int64_t extent = padded_[static_cast<size_t>(dim) + 1], window = found_.window[dim];
    if (found_.shift[dim] == 0) return 0;
    return cell < extent - window ? 0 : cell < extent - found_.shift[dim] ? 1 : 2;
  }

  // [1, windows, 1, cells, cells], where anything is shifted.
  bool HasMask() {
    const bool is_shifted = found_.shift[0] + found_.shift[1] > 0;
    if (!is_shifted || mask_.empty()) return is_shifted == !mask_.empty();
    const auto known = Constant(mask_);
    const int64_t windows = windows_[1] * windows_[2];
    if (!known.has_value() || known->shape != Extents{1, windows, 1, cells_, cells_}) return false;
    const auto region = [&](int64_t window, int64_t cell) {
      const int64_t row = window / windows_[2] * windows_[3] + cell / windows_[4];
      const int64_t column = window % windows_[2] * windows_[4] + cell % windows_[4];
      return std::pair(RegionOf(row, 0), RegionOf(column, 1));
    };
    for (int64_t i = 0; i < known->Elements(); ++i) {
      const int64_t key = i % cells_, query = i / cells_ % cells_, window = i / cells_ / cells_;
      if (known->At(i) != (region(window, query) == region(window, key) ? 0 : kMasked)) return false;
    }
    return true;
  }

  const OpGraph& graph_;
  ConstantEvaluator& constants_;
  std::map<std::string, size_t> producer_;
  std::map<std::string, std::set<size_t>> readers_;
  WindowAttentionPattern found_;
  Extents result_, padded_, windows_, back_;
  int64_t cells_ = 0;
  double scale_ = 0;
  std::string heads_output_, query_, key_, value_, bias_, mask_;
};

}  // namespace

std::vector<WindowAttentionPattern> FindWindowAttention(const OpGraph& graph, ConstantEvaluator& constants) {
  std::map<std::string, std::set<size_t>> modules;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const OpModule* module = graph.nodes[i].innermost.get(); module != nullptr; module = module->outer.get()) {
      if (module->type == "torchvision.models.swin_transformer.ShiftedWindowAttention") modules[module->path].insert(i);
    }
  }
  std::vector<WindowAttentionPattern> patterns;
  for (const auto& [path, nodes] : modules) {
    std::optional<WindowAttentionPattern> found = WindowAttentionFinder(graph, constants).Of(nodes);
    if (found.has_value()) patterns.push_back(*std::move(found));
  }
  return patterns;
}

absl::Status AddWindowAttention(const OpGraph& graph, const WindowAttentionPattern& pattern, LayerBuilder& builder) {
  Layer layer;
  WindowAttention& attention = *layer.mutable_window_attention();
  attention.set_heads(static_cast<uint32_t>(pattern.heads));
  const bool is_square = pattern.window[0] == pattern.window[1] && pattern.shift[0] == pattern.shift[1];
  for (size_t i = 0; i < (is_square ? 1 : 2); ++i) {
    attention.add_window(static_cast<uint32_t>(pattern.window[i]));
    if (pattern.shift[0] + pattern.shift[1] > 0) attention.add_shift(static_cast<uint32_t>(pattern.shift[i]));
  }
  if (pattern.qkv_bias.empty()) attention.set_bias(false);
  if (pattern.dropout != 0) attention.set_dropout(pattern.dropout);
  return builder.Add(graph.nodes[pattern.last], std::move(layer), {pattern.input},
                     {{"qkv.weight", pattern.qkv_weight},
                      {"qkv.bias", pattern.qkv_bias},
                      {"proj.weight", pattern.proj_weight},
                      {"proj.bias", pattern.proj_bias},
                      {"relative_position_bias_table", pattern.table}});
}

}  // namespace adjoin
